use std::collections::HashSet;

use super::*;

fn response(problem: Problem) -> Response<Bytes> {
    problem.into_response()
}

/// The table of the contract: other tools rely on these names and statuses.
#[test]
fn codes_and_statuses_are_those_of_the_contract() {
    let expected = [
        (Code::KeyMissing, "idempotency_key_missing", 400),
        (Code::KeyInvalid, "idempotency_key_invalid", 400),
        (Code::ScopeMissing, "idempotency_scope_missing", 401),
        (Code::PayloadMismatch, "idempotency_payload_mismatch", 409),
        (Code::RequestInProgress, "request_in_progress", 409),
        (Code::OutcomeUnknown, "outcome_unknown", 409),
        (Code::ExecutionAbandoned, "execution_abandoned", 500),
        (Code::TooManyKeys, "too_many_keys", 429),
        (Code::StoreUnavailable, "idempotency_store_unavailable", 503),
        (Code::RequestBodyTooLarge, "request_body_too_large", 413),
        (Code::UpstreamUnreachable, "upstream_unreachable", 502),
        (Code::UpstreamTimeout, "upstream_timeout", 504),
    ];
    for (code, text, status) in expected {
        assert_eq!((code.as_str(), code.status().as_u16()), (text, status));
    }
}

#[test]
fn every_code_has_a_page_and_a_name_of_its_own() {
    let names: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/problems");
    for code in Code::ALL {
        let page = pages.join(format!("{}.md", code.as_str()));
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        assert!(text.contains(&code.status().as_u16().to_string()), "{page:?} names no status");
    }
}

#[test]
fn a_problem_is_json_with_all_members() {
    let response =
        response(Problem::new(Code::RequestInProgress, "come \"again\"\n").with_retry_after(1));
    assert_eq!(response.status(), 409);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.headers()["retry-after"], "1");
    let body = response.body();
    let expected = r#"{"type":"https://semel.dev/problems/request_in_progress","title":"Request in progress","status":409,"detail":"come \"again\"\u000a","error_code":"request_in_progress","error_message":"come \"again\"\u000a","retry_safe":true}"#;
    assert_eq!(std::str::from_utf8(body).unwrap(), expected);
}

#[test]
fn a_policy_may_choose_the_status() {
    let problem =
        Problem::new(Code::PayloadMismatch, "x").with_status(StatusCode::UNPROCESSABLE_ENTITY);
    let response = response(problem);
    assert_eq!(response.status(), 422);
    assert!(std::str::from_utf8(response.body()).unwrap().contains("\"status\":422"));
    assert!(!response.headers().contains_key("retry-after"));
}
