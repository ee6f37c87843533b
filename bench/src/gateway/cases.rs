//! What is measured, and what is asked for.

use crate::figures::millis;
use crate::http::load::Load;
use crate::http::rounds::{Case, Sample};
use crate::http::subjects::Kind;

/// `asked` is the least part of nginx's rate.
pub(crate) static CASES: [Case; 12] = [
    case("GET, nginx, 1 worker", Kind::Nginx(1), Load::Get, None),
    case("GET, nginx, 2 workers", Kind::Nginx(2), Load::Get, None),
    case("GET, protection off", Kind::Off, Load::Get, None),
    case("GET, unprotected, default policy", Kind::Default, Load::Get, Some(0.90)),
    case("POST, nginx, 1 worker", Kind::Nginx(1), Load::First, None),
    case("POST, nginx, 2 workers", Kind::Nginx(2), Load::First, None),
    case("POST, protection off", Kind::Off, Load::First, None),
    case("POST, first executions, memory", Kind::Memory, Load::First, None),
    case("POST, first executions, embedded, process", Kind::Process, Load::First, Some(0.60)),
    case("POST, first executions, embedded, power", Kind::Power, Load::First, Some(0.50)),
    case("POST, replays of 1,000 keys", Kind::Replays, Load::Replay, Some(1.30)),
    case("POST, shadow mode", Kind::Shadow, Load::First, None),
];

/// The POST that added time is counted from.
pub(crate) static UNPROTECTED: Case =
    case("POST, 1 connection, protection off", Kind::Off, Load::First, None);
pub(crate) static PROTECTED: Case =
    case("POST, 1 connection, first, power", Kind::Power, Load::First, None);

const fn case(what: &'static str, subject: Kind, load: Load, asked: Option<f64>) -> Case {
    Case { what, subject, load, asked }
}

pub(crate) fn is_nginx(case: &Case) -> bool {
    matches!(case.subject, Kind::Nginx(_))
}

/// GET is held against GET, POST against POST.
fn is_held_against(case: &Case, nginx: &Case) -> bool {
    is_nginx(nginx) && (nginx.load == Load::Get) == (case.load == Load::Get)
}

/// Prints medians, ratios and goals of all cases.
pub(crate) fn print(samples: &[Vec<Sample>], rounds: usize) {
    println!("\n| what | requests/s | of nginx | proxy CPU | p50 | p99 | asked | |");
    println!("|---|---|---|---|---|---|---|---|");
    for (case, own) in CASES.iter().zip(samples) {
        println!("| {} | {} |", case.what, row(case, own, samples, rounds));
    }
    println!("\n`of nginx`: against the better of its two medians, GET to GET and POST to POST");
}

fn row(case: &Case, own: &[Sample], samples: &[Vec<Sample>], rounds: usize) -> String {
    let Some(median) = Sample::median(own) else {
        return "no round counted | | | | | |".to_owned();
    };
    let ratio = median.per_second / yardstick(case, samples);
    let asked = case.asked.map(|asked| format!("at least {asked:.2}")).unwrap_or_default();
    let mut mark = match case.asked {
        Some(asked) if ratio >= asked => "reached".to_owned(),
        Some(_) => "MISSED".to_owned(),
        None => String::new(),
    };
    if own.len() < rounds {
        mark = format!("{mark} ({} of {rounds} rounds counted)", own.len());
    }
    format!(
        "{:.0} | {ratio:.2} | {:.1} us | {} | {} | {asked} | {mark}",
        median.per_second,
        median.cpu.as_secs_f64() * 1e6,
        millis(median.p50),
        millis(median.p99),
    )
}

/// nginx at its best: on some machines one worker is faster than two.
fn yardstick(case: &Case, samples: &[Vec<Sample>]) -> f64 {
    let rivals = CASES.iter().zip(samples).filter(|(rival, _)| is_held_against(case, rival));
    let rates = rivals.filter_map(|(_, samples)| Some(Sample::median(samples)?.per_second));
    rates.reduce(f64::max).unwrap_or(f64::NAN)
}
