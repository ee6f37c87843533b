use super::*;

fn parse(url: &str) -> Address {
    Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn tcp(host: &str, port: u16) -> Endpoint {
    Endpoint::Tcp { host: host.to_owned(), port }
}

#[test]
fn the_usual_address() {
    let address = parse("redis://shop:s%40cret@cache.internal:7000/3");
    assert_eq!(address.place, Place::One(tcp("cache.internal", 7000)));
    assert_eq!(address.login.user.as_deref(), Some("shop"));
    assert_eq!(address.login.password.as_deref(), Some("s@cret"));
    assert_eq!(address.database, 3);
    assert_eq!(address.tls, None);
    assert_eq!(address.prefix.as_str(), "semel:");
}

#[test]
fn hosts_in_every_form() {
    for (url, endpoint) in [
        ("redis://h", tcp("h", 6379)),
        ("redis://h:1/", tcp("h", 1)),
        ("redis://[::1]", tcp("::1", 6379)),
        ("redis://:secret@[::1]:7/2", tcp("::1", 7)),
        ("unix:///run/redis.sock?db=2", Endpoint::Unix("/run/redis.sock".into())),
        ("redis+unix://u:p@/run/a%20b", Endpoint::Unix("/run/a b".into())),
    ] {
        assert_eq!(parse(url).place, Place::One(endpoint), "{url}");
    }
    assert_eq!(parse("redis://:only@h").login.user, None);
    assert_eq!(parse("redis://:only@h").login.password.as_deref(), Some("only"));
    assert_eq!(parse("unix:///run/redis.sock?db=2").database, 2);
}

#[test]
fn sentinels_and_clusters() {
    let address = parse("redis+sentinel://u:p@a,b:7/main/2?sentinel_password=q");
    let sentinels = vec![tcp("a", 26379), tcp("b", 7)];
    assert_eq!(address.place, Place::Sentinel { sentinels, name: "main".to_owned() });
    assert_eq!(address.database, 2);
    assert_eq!(address.sentinel_login.password.as_deref(), Some("q"));
    let address = parse("rediss+cluster://a:1,b,[::1]:3?sslrootcert=/ca.pem");
    let seeds = vec![tcp("a", 1), tcp("b", 6379), tcp("::1", 3)];
    assert_eq!(address.place, Place::Cluster { seeds });
    assert_eq!(address.tls.unwrap().root.unwrap().to_str(), Some("/ca.pem"));
}

#[test]
fn settings_of_our_own() {
    let address = parse("redis://h?prefix=shop:&pool_max=2&wait_replicas=1");
    assert_eq!(address.prefix.as_str(), "shop:");
    assert_eq!((address.pool_max, address.wait_replicas), (Some(2), Some(1)));
}

#[test]
fn faults_are_named_and_the_password_is_not() {
    for (url, expected) in [
        ("postgres://u@h/d", "must begin with redis://"),
        ("redis:h", "must begin with redis://"),
        ("redis://u:hunter2@", "names no host"),
        ("redis://u:hunter2@h:port", "port is not a number"),
        ("redis://u:me@hunter2@h", "write %40"),
        ("redis://u:hunter2@h/main", "db = \"main\""),
        ("redis://u:hunter2@[::1", "not closed"),
        ("redis://u:hunter2@[::1]7", "follows the ]"),
        ("redis://u:hun?hunter2@h", "%3F"),
        ("redis://u:8/hunter2@h", "%2F"),
        ("redis+sentinel://u:8/hunter2@h/main", "%2F"),
        ("redis+cluster://u:hunter2@a?db=3", "no databases"),
        ("unix://run/x", "names no file"),
        ("redis+sentinel://u:hunter2@a,b", "which master"),
        ("redis+cluster://u:hunter2@a,,b", "names no host"),
        ("redis+cluster://u:hunter2@a/3", "no databases"),
        ("redis://u:hunter2@h?prefix={a}", "prefix = \"{a}\""),
        ("redis://u:hunter2@h?prefix=a b", "prefix = \"a b\""),
        ("redis://u:hunter2@h?pool_max=0", "from 1 to 1000"),
        ("redis://u:hunter2@h?wait_replicas=-1", "from 0 to 100"),
        ("redis://u:hunter2@h?colour=red", "no parameter \"colour\""),
        ("rediss://u:hunter2@h?sslcert=/c", "only of use together"),
        ("redis://u:hunter2@h?sslrootcert=/c", "for rediss://"),
    ] {
        let error = Address::parse(url).map(|_| ()).expect_err(url);
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
    }
}

#[test]
fn servers_name_each_other() {
    let here = tcp("10.0.0.1", 7000);
    assert_eq!(here.named_by("10.0.0.2:7001"), Some(tcp("10.0.0.2", 7001)));
    assert_eq!(here.named_by("10.0.0.2:7001@17001"), Some(tcp("10.0.0.2", 7001)));
    assert_eq!(here.named_by(":7001"), Some(tcp("10.0.0.1", 7001)));
    assert_eq!(here.named_by("?:7001"), Some(tcp("10.0.0.1", 7001)));
    assert_eq!(here.named_by("::1:7001"), Some(tcp("::1", 7001)));
    assert_eq!(here.named_by("nonsense"), None);
    assert_eq!(tcp("::1", 7).to_string(), "[::1]:7");
}
