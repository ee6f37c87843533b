//! HTTP/1.1 messages as they are on the wire, for both ends.

use std::io::{self, BufRead, Read as _};

/// Header fields in the order they came, names in lower case.
pub(crate) type Fields = Vec<(String, String)>;

/// A start line and its header fields; `None` if the stream ended before it.
pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<Option<(String, Fields)>> {
    let start = read_line(stream)?;
    if start.is_empty() {
        return Ok(None);
    }
    let mut fields = Fields::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            return Ok(Some((start, fields)));
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| io::Error::other(format!("a field: {line:?}")))?;
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// A body, by its fields. A reply without a length lasts until the stream ends.
pub(crate) fn read_body(
    stream: &mut impl BufRead,
    fields: &Fields,
    until_end: bool,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if value_of(fields, "transfer-encoding").is_some() {
        read_chunks(stream, &mut body)?;
    } else if let Some(length) = value_of(fields, "content-length") {
        body.resize(length.parse().map_err(io::Error::other)?, 0);
        stream.read_exact(&mut body)?;
    } else if until_end {
        stream.read_to_end(&mut body)?;
    }
    Ok(body)
}

/// The first value of a field.
pub(crate) fn value_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// All values of a field, in order.
pub(crate) fn values_of<'a>(fields: &'a Fields, name: &str) -> Vec<&'a str> {
    let values = fields.iter().filter(|(known, _)| known == name);
    values.map(|(_, value)| value.as_str()).collect()
}

/// A head, ready to be sent.
pub(crate) fn head(start: &str, fields: &[(String, String)]) -> String {
    let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{start}\r\n{}\r\n", lines.collect::<String>())
}

fn read_chunks(stream: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = usize::from_str_radix(&read_line(stream)?, 16).map_err(io::Error::other)?;
        stream.by_ref().take(size as u64).read_to_end(body)?;
        let end = read_line(stream)?;
        if size == 0 {
            return Ok(());
        }
        if !end.is_empty() {
            return Err(io::Error::other("a chunk of another size"));
        }
    }
}

/// A line without its end; empty at the end of the stream.
fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
