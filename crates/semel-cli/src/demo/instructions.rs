//! What to try, with the lines to copy.

use std::fmt::Write as _;
use std::path::Path;

use super::stage::Stage;
use crate::paint::Paint;

/// One thing to try.
struct Step {
    title: &'static str,
    command: String,
}

/// The page that the demo opens with. Commands are the lines that begin with four spaces.
pub(super) fn page(stage: &Stage, paint: Paint) -> String {
    let plan = &stage.plan;
    let mut page = format!(
        "{}\n\n  payments API  http://{}  executes every request, retries included\n  \
         gateway       http://{}  executes once per key; process {}\n  \
         metrics       http://{}/metrics\n  files         {}\n\n{}\n",
        paint.bold("semel demo"),
        plan.upstream,
        stage.gateway_address(),
        stage.gateway.id,
        plan.admin,
        plan.directory.display(),
        paint.dim("Copy these into a second shell, one after the other:"),
    );
    for (number, step) in steps(stage).iter().enumerate() {
        let title = format!("{}  {}", number + 1, step.title);
        // Writing to a string cannot fail.
        let _ = write!(page, "\n{}\n    {}\n", paint.bold(&title), step.command);
    }
    let _ = write!(page, "\n{}\n", paint.dim("Ctrl-C ends the demo. What happens:"));
    page
}

fn steps(stage: &Stage) -> Vec<Step> {
    let ledger = format!("http://{}/ledger", stage.plan.upstream);
    let book = charge(stage, "book", 2_000, "ada");
    let changed = charge(stage, "book", 9_900, "ada");
    let bike = charge(stage, "bike", 50_000, "grace");
    let boat = charge(stage, "boat", 90_000, "edsger");
    let id = format!("$(cat {})", quoted(&stage.plan.id_file()));
    let step = |title, command| Step { title, command };
    vec![
        step("charge a card", format!("curl -i {book}")),
        step(
            "retry it: the same answer, marked x-idempotency-replayed, and no second charge",
            format!("curl -i {book}"),
        ),
        step("the same key for another amount is refused: 409", format!("curl -i {changed}")),
        step(
            "fifty at once: one executes, 49 wait for its answer",
            format!("seq 50 | xargs -P50 -I% curl -s {bike} | sort | uniq -c"),
        ),
        step(
            "kill -9 the gateway, retry the first charge: replayed from disk",
            format!("kill -9 {id}; curl -i --retry 9 --retry-all-errors --retry-delay 1 {book}"),
        ),
        step(
            "kill -9 in the middle of a charge: a client that just retries gets its 201, once the \
             dead gateway's lease (5 s) has run out",
            format!(
                "(sleep 0.1; kill -9 {id}) & \
                 curl -i --retry 9 --retry-all-errors --retry-delay 1 {boat}"
            ),
        ),
        step(
            "look at the ledger, behind the gateway's back: three orders, three charges",
            format!("curl -s {ledger}"),
        ),
    ]
}

/// What to tell curl for a charge.
fn charge(stage: &Stage, thing: &str, amount: u32, customer: &str) -> String {
    let (gateway, run) = (stage.gateway_address(), &stage.run);
    format!(
        "http://{gateway}/v1/charges -H 'Idempotency-Key: {thing}-{run}' \
         -d '{{\"amount\":{amount},\"currency\":\"EUR\",\"customer\":\"{customer}\"}}'"
    )
}

/// A path for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_anything_in_it_stays_one_word() {
        assert_eq!(quoted(Path::new("/tmp/a-b_c.d")), "/tmp/a-b_c.d");
        assert_eq!(quoted(Path::new("/tmp/it's mine")), r"'/tmp/it'\''s mine'");
    }
}
