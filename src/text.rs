// SPDX-License-Identifier: GPL-2.0-only
//! Text from files that users name: machines, workloads, suites, traces.
//!
//! Invariants: no more is read than a file of its kind can be long, for devices have no end; and what is no text is
//! answered with the place where it ceases to be one.

use std::io::{self, BufRead, ErrorKind, Read};

/// All of `input`, which has `most` bytes at most.
///
/// # Errors
/// It cannot be read, is longer, or is no text.
pub fn read(input: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    checked(bytes, most)
}

/// The next line of `input`, with its end, into `line`; empty when there is none. It has `most` bytes at most.
///
/// # Errors
/// As [`read`].
pub fn read_line(input: &mut impl BufRead, most: u64, line: &mut String) -> io::Result<()> {
    let mut bytes = std::mem::take(line).into_bytes();
    bytes.clear();
    input.take(most + 1).read_until(b'\n', &mut bytes)?;
    *line = checked(bytes, most)?;
    Ok(())
}

fn checked(bytes: Vec<u8>, most: u64) -> io::Result<String> {
    if bytes.len() as u64 > most {
        let what = match most >> 20 {
            0 => format!("it is longer than {most} bytes"),
            mib => format!("it is longer than {mib} MiB"),
        };
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..good];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n');
        let column = good - start.map_or(0, |at| at + 1) + 1;
        let place = match line {
            1 => format!("byte {column}"),
            line => format!("byte {column} of line {line}"),
        };
        let what = format!("it is no text: {place} is not UTF-8");
        io::Error::new(ErrorKind::InvalidData, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        assert_eq!(read(&b"one\ntwo"[..], 7).unwrap(), "one\ntwo");
        assert_eq!(told(read(&b"one\ntwo"[..], 6)), "it is longer than 6 bytes");
        assert_eq!(
            told(read(io::repeat(b'a'), 2 << 20)),
            "it is longer than 2 MiB"
        );
        assert_eq!(
            told(read(&b"ab\xffc"[..], 90)),
            "it is no text: byte 3 is not UTF-8"
        );
        assert_eq!(
            told(read(
                "one\ntwo\n\u{e9}\u{e9}".as_bytes().split_last().unwrap().1,
                90
            )),
            "it is no text: byte 3 of line 3 is not UTF-8"
        );
    }

    #[test]
    fn lines_come_one_by_one() {
        let (mut input, mut line) = (&b"one\ntwo"[..], String::from("zero"));
        for wanted in ["one\n", "two", "", ""] {
            read_line(&mut input, 4, &mut line).unwrap();
            assert_eq!(line, wanted);
        }
        assert_eq!(
            told(read_line(&mut &b"three\n"[..], 5, &mut line)),
            "it is longer than 5 bytes"
        );
        assert_eq!(
            told(read_line(&mut &b"\xff\n"[..], 5, &mut line)),
            "it is no text: byte 1 is not UTF-8"
        );
    }
}
