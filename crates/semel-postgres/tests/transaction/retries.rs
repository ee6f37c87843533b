//! Which failures are retried.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_postgres::transaction::{BoxError, Event, OnceError};

use crate::bank::{Bank, completed, conflict, deposit, is_executed};

fn state_of(error: &BoxError) -> Option<&str> {
    let error = error.downcast_ref::<tokio_postgres::Error>()?;
    error.code().map(tokio_postgres::error::SqlState::code)
}

#[tokio::test]
async fn a_permanent_failure_is_not_retried() {
    let bank = Bank::open().await;
    let calls = AtomicU32::new(0);
    let work = bank.once("k", conflict(), |work| {
        calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            deposit(work).await?;
            work.execute("INSERT INTO account VALUES ('anna', 1)", &[]).await?;
            Ok(completed("done"))
        })
    });
    let Err(OnceError::Work(error)) = work.await else { panic!("it worked") };
    assert_eq!(state_of(&error), Some("23505"), "{error}");
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(bank.counts().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_failure_at_the_commit_is_not_retried() {
    let bank = Bank::open().await;
    let later = "ALTER TABLE entry ADD UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED";
    bank.session.batch_execute(later).await.unwrap();
    bank.once("k1", conflict(), deposit).await.unwrap();
    let calls = AtomicU32::new(0);
    let work = bank.once("k2", conflict(), |work| {
        calls.fetch_add(1, Ordering::SeqCst);
        deposit(work)
    });
    let Err(OnceError::Work(error)) = work.await else { panic!("it worked") };
    assert_eq!(state_of(&error), Some("23505"), "{error}");
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// SERIALIZABLE may find out at the very end. Here the commit is made to fail, the first time.
#[tokio::test]
async fn a_conflict_at_the_commit_is_tried_again() {
    let bank = Bank::open().await;
    let later = "
        CREATE SEQUENCE commits;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('commits') = 1 THEN RAISE 'made up' USING ERRCODE = '40001'; END IF;
            RETURN NEW;
        END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON entry
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()";
    bank.session.batch_execute(later).await.unwrap();
    let calls = AtomicU32::new(0);
    let work = bank.once("k", conflict(), |work| {
        calls.fetch_add(1, Ordering::SeqCst);
        deposit(work)
    });
    assert!(is_executed(&work.await.unwrap()));
    assert_eq!(calls.into_inner(), 2);
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// The error may be wrapped in one of the service's own.
#[tokio::test]
async fn a_conflict_is_recognised_beneath_other_errors() {
    #[derive(Debug, thiserror::Error)]
    #[error("the bank is closed")]
    struct Closed(#[source] tokio_postgres::Error);

    let bank = Bank::open().await;
    let calls = AtomicU32::new(0);
    let work = bank.once("k", conflict(), |work| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            work.stage(Event::new("t", "p"));
            deposit(work).await?;
            if call == 0 {
                let raise = "DO $$ BEGIN RAISE 'made up' USING ERRCODE = '40001'; END $$";
                work.client().batch_execute(raise).await.map_err(Closed)?;
            }
            Ok(completed("done"))
        })
    });
    assert!(is_executed(&work.await.unwrap()));
    assert_eq!(bank.counts().await, [1, 1, 1], "each try stages its events again");
}
