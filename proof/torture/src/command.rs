//! The commands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use semel_torture::checker::{Report, check};
use semel_torture::run::{Done, Plan, run};
use semel_torture::{Kind, Ledger, Stopwatch, StoreKind, Terms, Totals, build, is_stopped};

/// Runs gateways under faults and checks what happened.
///
/// Everything is drawn from a seed: the same seed has the same faults at the same times. The exit code is
/// 1 if an invariant was broken, or a run could not be run.
#[derive(Debug, Parser)]
#[command(name = "semel-torture", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One run on one store. The last line is the result in JSON
    Run(Run),
    /// A short run on each store
    Short {
        /// The seed of the first run; each has the next
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long each has faults
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        #[command(flatten)]
        gateways: Gateways,
    },
    /// Run after run, on all stores in turn, until the time is over
    Deep(Deep),
    /// Checks a history that was kept
    Check {
        /// The file
        file: PathBuf,
    },
    /// Says what a run would break, and when
    Schedule(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// The store
    #[arg(long)]
    store: StoreKind,
    /// Everything is drawn from it
    #[arg(long)]
    seed: u64,
    /// How long there are faults
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only these faults: names such as `store-kill`, or beginnings such as `store`
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// How many clients
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Of a hundred keys, how many take longer than the lease
    #[arg(long)]
    slow_percent: Option<u64>,
    /// Of a hundred executions, how many say that nothing happened
    #[arg(long)]
    refused_percent: Option<u64>,
    /// Keep the history in this file
    #[arg(long)]
    history: Option<PathBuf>,
    #[command(flatten)]
    gateways: Gateways,
}

#[derive(Debug, Args)]
struct Deep {
    /// How long in all
    #[arg(long, default_value_t = 70)]
    minutes: u64,
    /// On which stores, in turn. By its seed, every other run on a cluster has failovers: with an even number of
    /// stores that is all of them, or none
    #[arg(long, value_delimiter = ',', default_values_t = StoreKind::ALL)]
    stores: Vec<StoreKind>,
    /// The seed of the first run; each has the next [default: the first that the ledger does not have]
    #[arg(long)]
    first_seed: Option<u64>,
    /// How long each run has faults
    #[arg(long, default_value_t = 100)]
    seconds: u64,
    /// Add a row to the ledger in this file (docs/proof.md), and write there what may be claimed by it. The
    /// gateways are those of the commit it names
    #[arg(long, conflicts_with_all = ["semel", "gateway_env"])]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    gateways: Gateways,
}

#[derive(Debug, Args)]
struct Gateways {
    /// The gateway's program, instead of one that is built now
    #[arg(long)]
    semel: Option<PathBuf>,
    /// Put into the environment of all gateways: NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    gateway_env: Vec<String>,
}

// === impl Arguments ===

impl Arguments {
    /// True without a violation or an error.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        match self.command {
            Command::Run(arguments) => {
                let plan = arguments.plan(&arguments.gateways.program()?)?;
                let done = run(&plan).inspect_err(|error| println!("{}", failure(&plan, error)))?;
                print(&done, &plan);
                println!("{}", done.result());
                Ok(done.is_good())
            }
            Command::Short { seed, seconds, gateways } => short(seed, seconds, &gateways),
            Command::Deep(arguments) => arguments.run(),
            Command::Check { file } => {
                let report: Report = check(&file)?;
                println!("{report}\n{}", report.to_json());
                Ok(report.violations.is_empty())
            }
            Command::Schedule(arguments) => {
                let plan = arguments.plan(Path::new("semel"))?;
                let mut all = plan.schedule().tracks.concat();
                all.sort_by_key(|planned| planned.at);
                for planned in all {
                    let (at, lasts) = (planned.at.as_millis(), planned.lasts.as_millis());
                    println!("{at:>8} ms  {:<18} on {}  for {lasts} ms", planned.kind, planned.on);
                }
                Ok(true)
            }
        }
    }
}

fn short(seed: u64, seconds: u64, gateways: &Gateways) -> anyhow::Result<bool> {
    let program = gateways.program()?;
    let mut totals = Totals::default();
    for (number, store) in StoreKind::ALL.into_iter().enumerate() {
        let mut plan = Plan::new(store, seed + number as u64, seconds, program.clone());
        plan.environment = gateways.environment()?;
        try_run(&plan, &mut totals)?;
    }
    println!("{totals}");
    Ok(totals.is_good())
}

/// One of many. A run that fails is counted; unless the command is stopped, the others go on.
fn try_run(plan: &Plan, totals: &mut Totals) -> anyhow::Result<()> {
    match run(plan) {
        Ok(done) => {
            print(&done, plan);
            totals.add(&done);
        }
        Err(error) if is_stopped() => return Err(error),
        Err(error) => {
            println!("NOT RUN: {}: {error:#}", plan.command());
            totals.add_unbegun(plan.seed);
        }
    }
    Ok(())
}

/// For programs: the run could not be begun.
fn failure(plan: &Plan, error: &anyhow::Error) -> String {
    let store = plan.store.as_str();
    serde_json::json!({ "seed": plan.seed, "store": store, "error": format!("{error:#}") })
        .to_string()
}

fn print(done: &Done, plan: &Plan) {
    if let Some((kind, why)) = &done.missing {
        println!("NOT RUN: {kind}: {why}");
    }
    println!("{}", done.report);
    if let Some(failure) = &done.failure {
        println!("it did not come to its end: {failure}");
    }
    if let Some(kept) = &done.kept {
        println!("everything is in {}", kept.display());
        println!("repeat it with: {}", plan.command());
    }
}

// === impl Run ===

impl Run {
    fn plan(&self, program: &Path) -> anyhow::Result<Plan> {
        let mut plan = Plan::new(self.store, self.seed, self.seconds, program.to_owned());
        plan.clients = self.clients;
        plan.slow_percent = self.slow_percent.unwrap_or(plan.slow_percent);
        plan.refused_percent = self.refused_percent.unwrap_or(plan.refused_percent);
        plan.history.clone_from(&self.history);
        plan.environment = self.gateways.environment()?;
        if !self.faults.is_empty() {
            let named: Result<Vec<_>, _> =
                self.faults.iter().map(|name| Kind::named(name)).collect();
            plan.kinds = Some(named?.concat());
        }
        Ok(plan)
    }
}

// === impl Deep ===

impl Deep {
    fn run(&self) -> anyhow::Result<bool> {
        let mut ledger = self.ledger()?;
        let first_seed = match (&self.first_seed, &ledger) {
            (Some(seed), _) => *seed,
            (None, Some(ledger)) => ledger.next_seed()?,
            (None, None) => 1,
        };
        let program = self.gateways.program()?;
        let (watch, mut totals) = (Stopwatch::start(), Totals::default());
        let mut result = Ok(());
        for (seed, store) in (first_seed..).zip(self.stores.iter().cycle()) {
            let is_over = self.is_over(&watch) && !totals.seeds.is_empty();
            if result.is_err() || is_over || is_stopped() {
                break;
            }
            let mut plan = Plan::new(*store, seed, self.seconds, program.clone());
            plan.environment = self.gateways.environment()?;
            result = try_run(&plan, &mut totals);
            // Whatever ends this process loses one run at most.
            if let Some(ledger) = ledger.as_mut().filter(|_| result.is_ok()) {
                ledger.write(&totals)?;
            }
            self.say_how_far(&watch, &totals);
        }
        println!("{totals}");
        result.map(|()| totals.is_good())
    }

    fn ledger(&self) -> anyhow::Result<Option<Ledger>> {
        let terms = Terms { stores: self.stores.clone(), seconds: self.seconds };
        self.ledger.as_ref().map(|file| Ledger::open(file, terms)).transpose()
    }

    /// True if there is no time for another run.
    fn is_over(&self, watch: &Stopwatch) -> bool {
        let length = Duration::from_secs(self.minutes * 60);
        watch.elapsed() + Duration::from_secs(self.seconds) > length
    }

    fn say_how_far(&self, watch: &Stopwatch, totals: &Totals) {
        println!(
            "after {} of {} minutes: {} requests under faults, {} kill -9, {} failed runs, {} violations\n",
            watch.elapsed().as_secs() / 60,
            self.minutes,
            totals.requests_under_faults,
            totals.kills(),
            totals.failed,
            totals.violations
        );
    }
}

// === impl Gateways ===

impl Gateways {
    fn program(&self) -> anyhow::Result<PathBuf> {
        build(self.semel.as_deref())
    }

    fn environment(&self) -> anyhow::Result<Vec<(String, String)>> {
        let pair = |given: &String| {
            let (name, value) =
                given.split_once('=').with_context(|| format!("{given:?} is not NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        self.gateway_env.iter().map(pair).collect()
    }
}
