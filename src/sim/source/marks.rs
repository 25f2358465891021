// SPDX-License-Identifier: GPL-2.0-only
//! Marks of a workload file: what is timed has a beginning and an end after it, in programs that run.

use super::file::{Block, Starts};
use super::lines::{FileError, Line};

fn is_mark(line: &Line<'_>, what: &str) -> bool {
    line.word == "mark" && line.exactly("mark").is_ok_and(|[word]| word == what)
}

/// Whether tasks say themselves when they are looked at.
///
/// # Errors
/// The line of a mark that lacks its other half, or comes after it.
pub(super) fn check(blocks: &[Block<'_>]) -> Result<bool, FileError> {
    let lines = || blocks.iter().flat_map(|block| &block.body);
    let mark = |what: &str| lines().find(|line| is_mark(line, what));
    match (mark("begin"), mark("end")) {
        (Some(line), None) => {
            return Err(line.error("there is `mark begin`, and nowhere `mark end`"));
        }
        (None, Some(line)) => {
            return Err(line.error("there is `mark end`, and nowhere `mark begin`"));
        }
        _ => {}
    }
    for block in blocks {
        let begin = block.body.iter().find(|line| is_mark(line, "begin"));
        let end = block.body.iter().rfind(|line| is_mark(line, "end"));
        if let (Some(begin), Some(end)) = (begin, end)
            && end.number < begin.number
        {
            return Err(end.error(format!(
                "`mark end` comes before `mark begin`, which is in line {}; expected it after the work that is timed",
                begin.number
            )));
        }
    }
    Ok(mark("first").is_some())
}

/// Lines of the first `mark begin` and the last `mark end`.
pub(super) fn lines(blocks: &[Block<'_>]) -> Option<(usize, usize)> {
    let mut lines = blocks.iter().flat_map(|block| &block.body);
    let begin = lines.clone().find(|line| is_mark(line, "begin"))?;
    let end = lines.rfind(|line| is_mark(line, "end"))?;
    Some((begin.number, end.number))
}

/// Whether all marks are in programs that run.
///
/// # Errors
/// The line of one that is not.
pub(super) fn check_started(
    blocks: &[Block<'_>],
    starts: &[Starts],
    root: usize,
) -> Result<(), FileError> {
    let mut started = vec![false; blocks.len()];
    let mut todo = vec![root];
    while let Some(program) = todo.pop() {
        if !std::mem::replace(&mut started[program], true) {
            todo.extend(starts[program].iter().map(|&(other, _)| other));
        }
    }
    for (block, _) in blocks.iter().zip(started).filter(|(_, started)| !started) {
        if let Some(line) = block.body.iter().find(|line| line.word == "mark") {
            let name = block.name;
            return Err(line.error(format!(
                "this mark is never reached: nobody starts program '{name}'; expected `fork {name}` or `thread {name}` \
                 in a program that runs"
            )));
        }
    }
    Ok(())
}
