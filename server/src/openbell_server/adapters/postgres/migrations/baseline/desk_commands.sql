-- Desk commands: cancel many orders, or close a position, as one command.

create table desk_commands (
    organization_id uuid not null,
    account_id uuid not null,
    desk_command_id uuid not null,
    -- The order of lists.
    command_no bigint not null generated always as identity,
    command_type text not null check (command_type in ('CANCEL_ALL', 'CLOSE_POSITION')),
    -- Which orders it concerns; null: of every symbol, of every caller.
    symbol text check (symbol is not null or command_type = 'CANCEL_ALL'),
    api_key_id uuid check (api_key_id is null or command_type = 'CANCEL_ALL'),
    idempotency_key text check (length(idempotency_key) between 1 and 255),
    command_hash bytea not null check (octet_length(command_hash) = 32),
    principal_type text not null check (principal_type in ('API_KEY', 'USER')),
    principal_id text not null,
    -- Orders in its scope when it was accepted, and open orders there that were placed elsewhere.
    orders integer not null,
    external_orders integer not null,
    created_at timestamptz not null,
    -- Set when there is nothing more to do; `failed` only then. Before that, `reason` is why a position is not closed yet.
    ended_at timestamptz,
    failed boolean not null default false check (not failed or (ended_at is not null and reason is not null)),
    reason text check (reason ~ '^[A-Z_]{1,40}$'),
    detail text,
    receipt_id uuid,
    primary key (account_id, desk_command_id),
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 80);
comment on table desk_commands is
    'Commands that cancel many orders or close a position. Executors work each off until it has ended.';
create unique index desk_commands_of_key on desk_commands (account_id, idempotency_key)
    where idempotency_key is not null;
create index desk_commands_newest on desk_commands (organization_id, account_id, command_no);
create index desk_commands_open on desk_commands (account_id) where ended_at is null;
call protect_tenant_table('desk_commands');
grant select on desk_commands to openbell_reader;
grant insert on desk_commands to openbell_tenant;
grant update (ended_at, failed, reason, detail, receipt_id) on desk_commands to openbell_execution;
grant select (organization_id, account_id, ended_at) on desk_commands to openbell_executor;
create policy find_work on desk_commands for select to openbell_executor using (true);

create table desk_command_orders (
    organization_id uuid not null,
    account_id uuid not null,
    desk_command_id uuid not null,
    place integer not null,
    order_id uuid not null,
    primary key (account_id, desk_command_id, place),
    foreign key (account_id, desk_command_id) references desk_commands,
    foreign key (organization_id, account_id, order_id) references orders
);
comment on table desk_command_orders is
    'The orders of a desk command: all that were open in its scope when it was accepted. Append-only.';
create trigger append_only before update or delete or truncate on desk_command_orders
    for each statement execute function refuse_change();
call protect_tenant_table('desk_command_orders');
grant select on desk_command_orders to openbell_reader;
grant insert on desk_command_orders to openbell_tenant;
