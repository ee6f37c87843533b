//! Users that may not do everything.

use semel_store::{Settled, Store as _};
use semel_testserver::Redis;

use crate::{assert_replayed, lease, open, options, paid};

/// A user that may write and not publish: waiters have to look by themselves.
#[tokio::test]
async fn a_user_that_may_not_publish_can_settle() {
    let server = Redis::start().expect("a server");
    let acl = ["ACL", "SETUSER", "mute", "on", ">secret", "~semel:*", "resetchannels", "+@all"];
    server.cli(&acl).expect("a user");
    let store = open(&format!("redis://mute:secret@127.0.0.1:{}", server.port())).await;
    let held = lease(&store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
}

/// What the error of a user without rights tells to grant is enough.
#[tokio::test]
async fn who_lacks_rights_is_told_what_to_grant() {
    let server = Redis::start().expect("a server");
    server.cli(&["ACL", "SETUSER", "poor", "on", ">secret", "+info"]).expect("a user");
    let url = format!("redis://poor:secret@127.0.0.1:{}?db=1", server.port());
    let error = options(&url).open().await.map(drop).expect_err("no rights");
    let text = error.to_string();
    let (_, rule) = text.split_once("ACL SETUSER USER ").unwrap_or_else(|| panic!("{text}"));
    let rule = rule.replace("PREFIX", "semel:");
    let mut command = vec!["ACL", "SETUSER", "poor"];
    command.extend(rule.split_whitespace());
    server.cli(&command).expect("rights");
    let store = open(&url).await;
    let held = lease(&store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
}
