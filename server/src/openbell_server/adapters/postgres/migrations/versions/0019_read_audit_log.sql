-- Operators read who changed what, in every organization.

grant select on audit_log to openbell_operator;
drop policy if exists list_entries on audit_log;
create policy list_entries on audit_log for select to openbell_operator using (true);
