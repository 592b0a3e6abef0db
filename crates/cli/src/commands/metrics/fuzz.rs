//! Fuzz target: requests to the metrics server.
use super::clients::Client;
use super::serve::{Hosts, answer, request};
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;
use segno_testkit::rng::Rng;
use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const METRICS: &str = "a 1\n";

/// A connection whose bytes are in memory.
struct Memory {
    sent: Cursor<Vec<u8>>,
    answer: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sent.read(into)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Client for Memory {
    fn limit(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn duplicate(&self) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn end(&self) {}
}

/// One whole answer; the metrics only for `GET /metrics`, and not if another host is named.
fn ask(sent: &[u8]) -> Outcome {
    let mut client = Memory { sent: Cursor::new(sent.to_vec()), answer: Vec::new() };
    let Ok(request) = request(&mut client) else { return Ok(false) };
    let done = answer(&mut client, request.as_ref(), Hosts::Local, "text/x", &|| Ok(METRICS.to_owned()));
    done.map_err(|e| e.to_string())?;
    let text = String::from_utf8(client.answer).map_err(|e| e.to_string())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("a head without an end")?;
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|l| l.strip_prefix("HTTP/1.1 ")).and_then(|l| l.get(..3)).ok_or("no status")?;
    if !lines.any(|l| l == format!("Content-Length: {}", body.len())) {
        return Err(format!("{} bytes follow {head}", body.len()));
    }
    if (status == "200") != (body == METRICS) {
        return Err(format!("{status} with {body}"));
    }
    let names_other = |line: &[u8]| {
        line.len() > 5
            && line[..5].eq_ignore_ascii_case(b"host:")
            && line[5..].trim_ascii() == b"evil.example"
    };
    let head: Vec<&[u8]> =
        sent.split(|b| *b == b'\n').take_while(|line| !line.trim_ascii().is_empty()).collect();
    let is_foreign = head.iter().skip(1).any(|line| names_other(line.trim_ascii()));
    if status == "200" && (is_foreign || !sent.starts_with(b"GET /metrics ")) {
        return Err("the metrics for another request".into());
    }
    Ok(status != "400")
}

/// Makes most inputs HTTP: a start line, then headers with the values that were drawn.
fn fixup(sent: &mut Vec<u8>, rng: &mut Rng) {
    if rng.one_in(4) {
        return;
    }
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
    let mut lines = sent.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let start = lines.next().filter(|line| line.ends_with(b" HTTP/1.1")).unwrap_or(b"GET /metrics HTTP/1.1");
    let mut head = start.to_vec();
    for line in lines.filter(|line| !line.is_empty()) {
        let name = line.split(|b| *b == b':').next().filter(|name| name.len() < line.len());
        let named = name.is_some_and(|name| !name.is_empty() && name.iter().all(is_token));
        head.extend_from_slice(if named { b"\r\n" } else { b"\r\nX: " });
        head.extend(line.iter().filter(|b| !b.is_ascii_control()));
    }
    head.extend_from_slice(b"\r\n\r\n");
    *sent = head;
}

#[test]
fn fuzz_http_requests() {
    let seeds = [
        "GET /metrics HTTP/1.1\r\nHost: localhost:9750\r\nAccept: */*\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nHOST: evil.example\r\n\r\n",
        "GET / HTTP/1.1\r\nUser-Agent: x\r\nHost: [::1]:9\r\n\r\nbody",
    ];
    let seeds = seeds.map(|s| s.as_bytes().to_vec()).to_vec();
    let words: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"Host: evil.example",
        b"host:",
        b" ",
        b"GET /metrics ",
        b"POST",
        b"\xff",
        b"[",
        b"]",
        b"127.0.0.1",
    ];
    let mutator = Mutator { seeds, words, resized: 2, fixup: &fixup, ..Mutator::default() };
    let target =
        Target { name: "http", runs: 3_000, draw: &|rng| mutator.draw(rng), run: &|i: &Vec<u8>| ask(i) };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
