// SPDX-License-Identifier: GPL-2.0-only
//! What a pair of tasks talks through: one byte, or one word, at a time.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::futex::Mailbox;
use super::shared::Shared;

/// The kinds of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkKind {
    /// Two pipes.
    Pipe,
    /// Two futex words in shared memory.
    Futex,
    /// A Unix stream socket pair.
    Socket,
}

impl LinkKind {
    /// The name that the command line knows it by.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Pipe => "pipe",
            LinkKind::Futex => "futex",
            LinkKind::Socket => "socket",
        }
    }
}

/// One end of a link. Neither sending nor receiving allocates.
pub enum End {
    Pipe {
        from: PipeReader,
        to: PipeWriter,
    },
    Futex {
        boxes: Arc<Shared<Mailbox>>,
        /// Which box is this end's; the other one is the partner's.
        own: usize,
    },
    Socket(UnixStream),
}

/// Both ends of a new link.
pub fn connect(kind: LinkKind) -> Result<[End; 2]> {
    match kind {
        LinkKind::Pipe => {
            let pipe = || std::io::pipe().context("cannot make a pipe");
            let ((a_from, b_to), (b_from, a_to)) = (pipe()?, pipe()?);
            Ok([(a_from, a_to), (b_from, b_to)].map(|(from, to)| End::Pipe { from, to }))
        }
        LinkKind::Futex => {
            let boxes = Shared::new(2)?;
            Ok([0, 1].map(|own| End::Futex {
                boxes: Arc::clone(&boxes),
                own,
            }))
        }
        LinkKind::Socket => {
            let (a, b) = UnixStream::pair().context("cannot make a socket pair")?;
            Ok([End::Socket(a), End::Socket(b)])
        }
    }
}

impl End {
    /// Wakes the partner.
    pub fn send(&mut self) -> io::Result<()> {
        match self {
            End::Pipe { to, .. } => to.write_all(&[0]),
            End::Futex { boxes, own } => boxes[1 - *own].put(),
            End::Socket(socket) => socket.write_all(&[0]),
        }
    }

    /// Sleeps until the partner sends.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut byte = [0];
        match self {
            End::Pipe { from, .. } => from.read_exact(&mut byte),
            End::Futex { boxes, own } => boxes[*own].take(),
            End::Socket(socket) => socket.read_exact(&mut byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_carries_both_ways() {
        for kind in LinkKind::value_variants() {
            let [mut a, mut b] = connect(*kind).unwrap();
            let echo = std::thread::spawn(move || {
                b.receive().unwrap();
                b.send().unwrap();
            });
            a.send().unwrap();
            a.receive().unwrap();
            echo.join().unwrap();
        }
    }

    #[test]
    fn names_are_the_command_line_s() {
        for kind in LinkKind::value_variants() {
            let value = kind.to_possible_value().unwrap();
            assert_eq!(value.get_name(), kind.name());
        }
    }
}
