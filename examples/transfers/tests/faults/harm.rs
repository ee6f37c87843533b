//! What is done to a service or a server, and when: not before it has work in hand.

use semel_testserver::Postgres;

use crate::fleet::{Fleet, name};
use crate::support::eventually;

/// Freezes an instance in the middle of transactions; the sessions that they are in.
pub(crate) fn freeze_at_work(server: &Postgres, fleet: &Fleet, number: usize) -> Vec<String> {
    let open = format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name = '{}' AND xact_start IS NOT NULL",
        name(number)
    );
    eventually("the service has a transaction open", || {
        fleet.freeze(number);
        let sessions = lines(server, &open);
        if sessions.is_empty() {
            fleet.thaw(number);
            return None;
        }
        Some(sessions)
    })
}

/// Blocks until none of these sessions has a transaction open. The server ends those that are idle
/// in one; a session whose `COMMIT` was already sent commits and stays, idle without a transaction.
pub(crate) fn wait_until_no_transaction_is_open(server: &Postgres, sessions: &[String]) {
    let open = format!(
        "SELECT pid FROM pg_stat_activity WHERE pid IN ({}) AND xact_start IS NOT NULL",
        sessions.join(", ")
    );
    eventually("the transactions end", || lines(server, &open).is_empty().then_some(()));
}

/// Ends up to three connections that are in the middle of a transaction: anywhere, or while they
/// settle and commit.
pub(crate) fn end_transactions(server: &Postgres, at_settle: bool) {
    let place = if at_settle { "query LIKE '%INTO semel.record%'" } else { "true" };
    // Settling is a matter of a moment, so the server itself looks for one.
    let end = format!(
        "DO $$
         DECLARE
             ended int := 0;
         BEGIN
             FOR look IN 1..2000 LOOP
                 PERFORM pg_stat_clear_snapshot();
                 SELECT count(pg_terminate_backend(pid)) INTO ended FROM (
                     SELECT pid FROM pg_stat_activity
                     WHERE application_name LIKE 'transfers-%' AND xact_start IS NOT NULL
                           AND state = 'active' AND {place}
                     ORDER BY random() LIMIT 3
                 ) AS open;
                 EXIT WHEN ended > 0;
             END LOOP;
             PERFORM set_config('harm.ended', ended::text, false);
         END $$;
         SELECT current_setting('harm.ended')"
    );
    eventually("a transaction ends", || {
        (server.psql(&end).expect("an answer") != "0").then_some(())
    });
}

fn lines(server: &Postgres, sql: &str) -> Vec<String> {
    let rows = server.psql(sql).expect("an answer");
    rows.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}
