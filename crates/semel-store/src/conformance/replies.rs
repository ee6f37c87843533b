//! A reply of any content comes back byte for byte (I4, trap 12).

use semel_core::{Refusal, Reply, ResultId, Settlement, State};

use super::Fixture;
use super::trial::{Trial, attempt, completed, id, replayed};
use crate::Settled;

/// Settles `reply` as a success and as a failure, and must find it again on every way out.
async fn assert_kept<F: Fixture>(trial: &Trial<F>, key: &str, reply: Reply) {
    let outcomes = [
        (format!("{key}-c"), Settlement::Completed(reply.clone())),
        (format!("{key}-f"), Settlement::Failed(reply)),
    ];
    for (key, outcome) in outcomes {
        let lease = trial.lease(&attempt(&key)).await;
        trial.record_outcome(&lease, &outcome).await;
        // Not `assert_eq!`, which would print a megabyte of bytes.
        assert!(replayed(trial.claim(&attempt(&key)).await) == outcome, "{key}: replay");
        let state = trial.record(id(&key)).await.state;
        assert!(state == State::Settled(outcome.clone()), "{key}: inspect");
        let refused = trial.settle(&lease, &completed("another outcome")).await;
        let expected =
            Settled::Refused(Refusal::Settled { settlement: outcome, expires: lease.expires() });
        assert!(refused == expected, "{key}: refusal");
    }
}

/// Bytes that no compressor can shorten.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// No bytes at all are a reply too.
pub async fn empty_reply_is_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    assert_kept(&trial, "empty", Reply::default()).await;
    let outcome = replayed(trial.claim(&attempt("empty-c")).await);
    assert_ne!(outcome, Settlement::Abandoned);
}

/// Around every size at which a store may change its ways.
pub async fn replies_of_every_size_are_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for len in [1, 2, 511, 512, 513, 4_096, 65_535, 65_536, 65_537] {
        assert_kept(&trial, &format!("noise-{len}"), Reply::new(noise(len))).await;
        assert_kept(&trial, &format!("zeros-{len}"), Reply::new(vec![0; len])).await;
    }
}

/// A mebibyte, that can be compressed and that cannot.
pub async fn large_replies_are_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    assert_kept(&trial, "noise", Reply::new(noise(1 << 20))).await;
    assert_kept(&trial, "same", Reply::new(vec![b'x'; 1 << 20])).await;
}

/// All 256 values of a byte, alone and together.
pub async fn every_byte_value_is_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let every: Vec<u8> = (0..=u8::MAX).collect();
    assert_kept(&trial, "every", Reply::new(every)).await;
    for byte in [0, b'\n', b'\r', b'\\', b'"', b'$', 0x7f, 0x80, 0xfe, 0xff] {
        assert_kept(&trial, &format!("byte-{byte}"), Reply::new(vec![byte])).await;
    }
}

/// Bytes that are no text in any encoding a store may think of.
pub async fn bytes_that_are_not_text_are_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let broken: [&'static [u8]; 4] =
        [b"\xff\xfe\x00\xd8", b"\xc3\x28", b"\xed\xa0\x80", b"cut short \xe2\x82"];
    for (number, bytes) in broken.into_iter().enumerate() {
        assert_kept(&trial, &format!("broken-{number}"), Reply::new(bytes)).await;
    }
}

/// Text in a well-known format stays as it is: nothing is parsed, trimmed or merged.
pub async fn text_like_headers_is_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let texts = [
        "HTTP/1.1 201 Created\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n{\"id\": 1}\n",
        "  {\"a\": 1.0, \"a\": 9007199254740993}  ",
        "null",
        "Straße 東京 🧾\u{0}",
    ];
    for (number, text) in texts.into_iter().enumerate() {
        assert_kept(&trial, &format!("text-{number}"), Reply::new(text)).await;
    }
}

/// Result ids of every length and script, with and without bytes beside them.
pub async fn result_ids_of_every_length_are_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let longest = "x".repeat(ResultId::MAX_LEN);
    let texts =
        ["1", "/v1/charges/ch_1?a=b&c", "東京-42", " ", "\u{1}\u{7f}\\ '\"%", longest.as_str()];
    for (number, text) in texts.into_iter().enumerate() {
        let result = ResultId::new(text).expect("a result id");
        let named = Reply::new("paid").with_result(result.clone());
        assert_kept(&trial, &format!("named-{number}"), named).await;
        let bare = Reply::default().with_result(result);
        assert_kept(&trial, &format!("bare-{number}"), bare).await;
    }
}
