use proptest::prelude::*;

use super::*;

fn reply(body: impl Into<Bytes>) -> StoredReply {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/json"),
        ("link", "<a>; rel=next"),
        ("set-cookie", "a=1"),
        ("link", "<b>; rel=prev"),
        ("set-cookie", "b=2"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-empty", ""),
    ] {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    let body = StoredBody::Kept(body.into());
    StoredReply::new(StatusCode::CREATED, headers, body, HeaderMap::new(), true)
}

fn round_trip(reply: &StoredReply) -> StoredReply {
    StoredReply::decode(&reply.encode()).unwrap()
}

/// Trap 12: every value of a name, in order, and bytes that are no text.
#[test]
fn all_header_values_and_exact_bytes_come_back() {
    let binary: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    let reply = reply(binary);
    let again = round_trip(&reply);
    assert_eq!(again, reply);
    let links: Vec<_> = again.headers.get_all("link").iter().collect();
    assert_eq!(links, ["<a>; rel=next", "<b>; rel=prev"]);
    assert_eq!(again.headers["x-latin"].as_bytes(), b"caf\xe9");
    assert_eq!(again.headers["x-empty"], "");
    assert!(!again.headers.contains_key("x-hop") && !again.headers.contains_key("connection"));
}

#[test]
fn cookies_are_kept_only_if_asked_for() {
    let with = reply("x");
    assert_eq!(with.headers.get_all("set-cookie").iter().count(), 2);
    let without = StoredReply::new(with.status, with.headers, with.body, HeaderMap::new(), false);
    assert!(!without.headers.contains_key("set-cookie"));
}

#[test]
fn trailers_come_back() {
    let mut reply = reply("x");
    reply.trailers.insert("grpc-status", HeaderValue::from_static("0"));
    assert_eq!(round_trip(&reply), reply);
}

#[test]
fn long_bodies_are_compressed_if_that_helps() {
    let short = reply(vec![b'a'; 512]);
    assert!(short.encode().len() > 512);
    let long = reply(vec![b'a'; 100_000]);
    assert!(long.encode().len() < 2_000);
    assert_eq!(round_trip(&long), long);
    let noise: Vec<u8> =
        (0..4_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let packed_worse = reply(noise.clone());
    assert!(packed_worse.encode().len() >= noise.len());
    assert_eq!(round_trip(&packed_worse), packed_worse);
}

#[test]
fn empty_and_omitted_bodies_differ() {
    let empty = reply("");
    let omitted = StoredReply { body: StoredBody::Omitted, ..empty.clone() };
    assert_eq!(round_trip(&empty), empty);
    assert_eq!(round_trip(&omitted), omitted);
    assert_ne!(empty, omitted);
}

/// The memory for a body is known before it is unpacked.
#[test]
fn the_length_of_a_body_is_known_before_it_is_unpacked() {
    for len in [0, 1, 512, 513, 100_000] {
        let reply = reply(vec![b'a'; len]);
        let packed = PackedReply::decode(&reply.encode()).unwrap();
        let is_compressed = matches!(packed.body, PackedBody::Compressed(..));
        assert_eq!((packed.body.len(), is_compressed), (len as u64, len > 512));
        assert_eq!(packed.unpack().unwrap(), reply);
    }
    let omitted = StoredReply { body: StoredBody::Omitted, ..reply("") };
    assert_eq!(PackedReply::decode(&omitted.encode()).unwrap().body.len(), 0);
}

/// Records outlive versions: these bytes must be read for ever.
#[test]
fn the_format_is_stable() {
    let mut headers = HeaderMap::new();
    headers.insert("location", HeaderValue::from_static("/c/1"));
    let body = StoredBody::Kept(Bytes::from_static(b"{\"id\":1}"));
    let reply = StoredReply::new(StatusCode::CREATED, headers, body, HeaderMap::new(), false);
    let golden = b"\x01\x00\x00\xc9\x00\x01\x00\x08location\x00\x00\x00\x04/c/1\x00\x00\x00\x00\x00\x08{\"id\":1}";
    assert_eq!(reply.encode().as_ref(), golden);
    assert_eq!(StoredReply::decode(&Bytes::from_static(golden)).unwrap(), reply);
}

#[test]
fn newer_formats_are_not_reported_as_damage() {
    let error = StoredReply::decode(&Bytes::from_static(&[9, 0])).unwrap_err();
    assert_eq!(error, StoredReplyError::Newer(9));
    assert!(error.to_string().contains("update Semel"));
}

#[test]
fn every_truncation_is_noticed() {
    for body in [vec![b'a'; 40], vec![b'a'; 4_000]] {
        let bytes = reply(body).encode();
        for len in 0..bytes.len() {
            assert!(StoredReply::decode(&bytes.slice(..len)).is_err(), "{len}");
        }
    }
}

#[test]
fn a_damaged_length_does_not_ask_for_memory() {
    let mut bytes = reply(vec![b'a'; 4_000]).encode().to_vec();
    let at = bytes.windows(4).position(|window| window == 4_000_u32.to_be_bytes()).unwrap();
    bytes[at..at + 4].copy_from_slice(&(u32::MAX / 8).to_be_bytes());
    assert!(StoredReply::decode(&bytes.into()).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = StoredReply::decode(&bytes.into());
    }

    #[test]
    fn arbitrary_bodies_come_back(
        body in proptest::collection::vec(any::<u8>(), 0..3_000),
        status in 200_u16..600,
    ) {
        let reply = StoredReply { status: StatusCode::from_u16(status).unwrap(), ..reply(body) };
        prop_assert_eq!(round_trip(&reply), reply);
    }
}
