//! What a cluster adds: the same load on one server, and on clusters of one, three and six masters.
//!
//! On a machine with few cores the processes share them, so the rate hardly grows; what each pair
//! takes of the servers' processor time says what servers with a core of their own would do.

use std::time::{Duration, Instant};

use semel_core::Policy;
use semel_redis::Options;
use semel_testserver::{Redis, RedisCluster};

use super::{Arguments, everysec, info};
use crate::figures::{Schedule, cpu_time, median};
use crate::http::stop;
use crate::store_load as load;

const MASTERS: [usize; 3] = [1, 3, 6];

/// What runs, and what it gave in each round.
struct Subject {
    what: String,
    url: String,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    /// Microseconds of processor time for a pair, of all servers and of this process.
    servers: f64,
    client: f64,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Schedule { rounds, turns, seconds } = arguments.schedule;
    let time = Duration::from_secs(seconds) * turns;
    println!(
        "\nclaim + settle, 300 bytes, {} clients, {rounds} rounds of {time:?}",
        arguments.clients
    );
    let alone = everysec().start()?;
    let clusters = MASTERS.map(|masters| RedisCluster::start(masters, 0, &everysec()));
    let clusters = clusters.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut subjects = vec![Subject::new("one server", alone.url())];
    for (masters, cluster) in MASTERS.iter().zip(&clusters) {
        subjects.push(Subject::new(&format!("a cluster, masters: {masters}"), cluster.url()));
    }
    let servers_of = |subject: usize| match subject {
        0 => std::slice::from_ref(&alone),
        other => clusters[other - 1].servers(),
    };
    for _ in 0..rounds {
        for (number, subject) in subjects.iter_mut().enumerate() {
            stop::check()?;
            let sample = sample(servers_of(number), &subject.url, arguments.clients, time).await?;
            subject.samples.push(sample);
        }
    }
    print(&subjects);
    Ok(())
}

async fn sample(
    servers: &[Redis],
    url: &str,
    clients: usize,
    time: Duration,
) -> anyhow::Result<Sample> {
    for server in servers {
        server.cli(&["FLUSHALL"])?;
    }
    let store = Options::from_url(url)?.open().await?;
    load::pair(&store, &Policy::default()).await?;
    let spent = || servers.iter().map(spent).sum::<anyhow::Result<f64>>();
    let (servers_before, client_before, began) = (spent()?, cpu_time(), Instant::now());
    let per_second = load::pairs(&store, clients, time).await?;
    // The time before counting starts has its share in both.
    let pairs = per_second * began.elapsed().as_secs_f64();
    Ok(Sample {
        per_second,
        servers: (spent()? - servers_before) * 1e6 / pairs,
        client: cpu_time().saturating_sub(client_before).as_secs_f64() * 1e6 / pairs,
    })
}

/// Seconds of processor time of one server.
fn spent(server: &Redis) -> anyhow::Result<f64> {
    Ok(info(server, "cpu", "used_cpu_user")? + info(server, "cpu", "used_cpu_sys")?)
}

fn print(subjects: &[Subject]) {
    println!("\n| on | pairs/s | servers, CPU per pair | clients, CPU per pair |");
    println!("|---|---|---|---|");
    for Subject { what, samples, .. } in subjects {
        let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
        let (rate, servers) = (of(|sample| sample.per_second), of(|sample| sample.servers));
        let client = of(|sample| sample.client);
        println!("| {what} | {rate:.0} | {servers:.1} us | {client:.1} us |");
    }
}

// === impl Subject ===

impl Subject {
    fn new(what: &str, url: String) -> Self {
        Self { what: what.to_owned(), url, samples: Vec::new() }
    }
}
