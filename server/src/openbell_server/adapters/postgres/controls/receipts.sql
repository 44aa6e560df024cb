-- name: find_receipt(organization_id, account_id, receipt_id)^
select receipt_id, account_id, intent_id, seq, verdict, body, hash, refusal_no, created_at
from receipts
where organization_id = :organization_id and account_id = :account_id and receipt_id = :receipt_id;

-- name: receipts_of_intent(organization_id, account_id, intent_id, after, row_limit)
-- A command has one receipt of its acceptance, followed by at most one of a refusal before sending.
select receipt_id, account_id, intent_id, seq, verdict, body, hash, refusal_no, created_at
from (
    select receipt_id, account_id, intent_id, seq, verdict, body, hash, refusal_no, created_at,
        2 * seq + (refusal_no is not null)::integer as place
    from receipts
    where organization_id = :organization_id and account_id = :account_id and intent_id = :intent_id
) r
where place > :after
order by place
limit :row_limit;

-- name: refusals_after(organization_id, account_id, after, row_limit)
select receipt_id, account_id, intent_id, seq, verdict, body, hash, refusal_no, created_at
from receipts
where organization_id = :organization_id and account_id = :account_id and refusal_no > :after
order by refusal_no
limit :row_limit;

-- name: chain_heads(organization_id, account_id)^
select action_no as actions, chain_head, refusal_no as refusals, refusal_head
from account_counters
where organization_id = :organization_id and account_id = :account_id;

-- name: chained_actions(organization_id, account_id, after, row_limit)
-- The lateral join with offset 0 forces a look-up by key: a generic plan does not know the limit and would join whole tables.
select a.*, r.body as receipt_body, r.receipt_hash
from (
    select a.* from intent_actions a
    where a.organization_id = :organization_id and a.account_id = :account_id and a.action_no > :after
    order by a.action_no
    limit :row_limit
) a
cross join lateral (
    select r.body, r.hash as receipt_hash from receipts r
    where r.organization_id = a.organization_id and r.account_id = a.account_id and r.receipt_id = a.receipt_id
    offset 0
) r
order by a.action_no;

-- name: chained_refusals_across_organizations()
-- For the check of a whole database: all numbered refusals; an account without refusals has one row.
select c.account_id, c.refusal_no as last_no, c.refusal_head, r.refusal_no, r.verdict, r.body
from account_counters c
left join receipts r
    on r.organization_id = c.organization_id and r.account_id = c.account_id and r.refusal_no is not null
order by c.organization_id, c.account_id, r.refusal_no;
