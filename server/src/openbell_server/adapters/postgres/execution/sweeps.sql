-- name: sweeps_with_work_across_organizations(held_slots, row_limit, older_than_seconds, stuck_after_seconds, flag_after_seconds, settle_seconds)^
-- Whether each sweep would find something. Each {statement} is the one that the sweep then runs itself.
select
    exists ({heartbeats_missed_across_organizations}) as "HEARTBEATS",
    exists ({halts_to_lift_across_organizations}) or exists ({halts_to_record_across_organizations})
        or exists ({accounts_to_cancel_across_organizations}) or exists ({accounts_to_compare_across_organizations})
        as "HALTS",
    exists ({accounts_with_desk_commands_across_organizations}) as "DESK",
    exists ({accounts_waiting_across_organizations}) or exists ({accounts_in_doubt_across_organizations})
        or exists ({accounts_to_flag_across_organizations}) or exists ({accounts_held_across_organizations})
        as "WORK",
    exists ({accounts_asked_across_organizations}) as "SIGN_INS",
    exists ({accounts_resting_across_organizations}) or exists ({accounts_closing_across_organizations}) as "RESTING";
