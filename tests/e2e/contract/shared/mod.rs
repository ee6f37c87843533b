//! Gateways that share a store on a real server, whichever it is.

mod clocks;
mod crashes;
mod fleet;
pub(crate) mod outages;

/// Makes a test of each of these functions for every server there is.
macro_rules! on_each_server {
    ($($test:ident),+ $(,)?) => {
        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(#[test] fn $test() { super::$test::<semel_testserver::Postgres>(); })+
        }
        #[cfg(feature = "redis")]
        mod on_redis {
            $(#[test] fn $test() { super::$test::<semel_testserver::Redis>(); })+
        }
        #[cfg(all(feature = "postgres", feature = "redis"))]
        mod on_tiered {
            $(#[test] fn $test() { super::$test::<crate::support::Tiered>(); })+
        }
        #[cfg(feature = "redis")]
        mod on_redis_cluster {
            $(#[test] fn $test() { super::$test::<semel_testserver::RedisCluster>(); })+
        }
    };
}
pub(crate) use on_each_server;
