-- Operators see which actions are in doubt, and whose; of what was ordered they see nothing.

grant select (
    organization_id, account_id, action_id, intent_id, seq, action_type, state, send_started_at, unknown_since, flagged_at,
    resends, probes, settled_at
) on action_states to openbell_operator;
drop policy if exists list_actions on action_states;
create policy list_actions on action_states for select to openbell_operator using (true);

-- apart
grant select (organization_id, account_id, broker, slot) on accounts to openbell_operator;
drop policy if exists list_accounts on accounts;
create policy list_accounts on accounts for select to openbell_operator using (true);
