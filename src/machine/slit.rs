// SPDX-License-Identifier: GPL-2.0-only
//! What firmware can say of distances, as ACPI has it (SLIT, and the kernel's checks of it).
//!
//! A node's distance to itself is 10, that to another is more, up to 254; 255 means that there is no way. A kernel
//! that finds another table drops it and takes 10 and 20. Each direction has a distance of its own, so the two may
//! differ, which few machines have. Nothing is said of ways over a third node: a long one beside two short ones is
//! strange, and not forbidden.

use super::cpulist;
use super::limits::{LOCAL_DISTANCE, MAX_DISTANCE};

/// What is not, or hardly, to be found on a machine; a sentence each. `distances`: row-major, of `nodes` by kernel id.
pub(super) fn warnings(nodes: &[u32], distances: &[u32]) -> Vec<String> {
    let count = nodes.len();
    let distance = |from: usize, to: usize| distances[from * count + to];
    let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let mut warnings = Vec::new();
    let own = (0..count).filter(|&node| distance(node, node) != LOCAL_DISTANCE);
    let own: Vec<u32> = own.map(|node| nodes[node]).collect();
    if !own.is_empty() {
        warnings.push(format!(
            "the distance of node {} to itself is not {LOCAL_DISTANCE}; no firmware may say so (ACPI SLIT), and a \
             kernel takes none of its distances then",
            cpulist::format(own)
        ));
    }
    let remote = |at: &(usize, usize)| at.0 != at.1;
    let near = pairs().filter(remote);
    let near = near.filter(|&(from, to)| distance(from, to) <= LOCAL_DISTANCE);
    warnings.extend(some(nodes, near.collect(), |which| {
        format!(
            "{which} is no more than {LOCAL_DISTANCE}, that of a node to itself; no firmware may say so (ACPI SLIT), \
             and a kernel takes none of its distances then"
        )
    }));
    let none = pairs().filter(remote);
    let none = none.filter(|&(from, to)| distance(from, to) == MAX_DISTANCE);
    warnings.extend(some(nodes, none.collect(), |which| {
        format!("{which} is {MAX_DISTANCE}, which means that there is no way (ACPI SLIT)")
    }));
    let oneway = pairs().filter(|&(from, to)| from < to);
    let oneway = oneway.filter(|&(from, to)| distance(from, to) != distance(to, from));
    let oneway: Vec<(usize, usize)> = oneway.collect();
    if let [(from, to), more @ ..] = oneway.as_slice() {
        let more = match more.len() {
            0 => String::new(),
            more => format!(", and so do {more} more"),
        };
        warnings.push(format!(
            "the distance between nodes {} and {} depends on the direction{more}",
            nodes[*from], nodes[*to]
        ));
    }
    warnings
}

/// A sentence about the first of the pairs, and how many more there are.
fn some(
    nodes: &[u32],
    pairs: Vec<(usize, usize)>,
    sentence: impl Fn(String) -> String,
) -> Option<String> {
    let (&(from, to), more) = pairs.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(sentence(format!(
        "the distance from node {} to node {}{more}",
        nodes[from], nodes[to]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(distances: &[u32]) -> String {
        warnings(&[0, 3], distances).join("\n")
    }

    #[test]
    fn what_firmware_may_say_is_not_warned_of() {
        assert_eq!(told(&[10, 11, 11, 10]), "");
        assert_eq!(told(&[10, 254, 254, 10]), "");
        // A way over node 1 would be shorter: not forbidden.
        let line = [10, 11, 200, 11, 10, 11, 200, 11, 10];
        assert!(warnings(&[0, 1, 2], &line).is_empty());
    }

    #[test]
    fn what_it_may_not_say_is() {
        let local = told(&[20, 30, 30, 10]);
        assert!(local.starts_with("the distance of node 0 to itself is not 10"));
        let near = told(&[10, 10, 10, 10]);
        assert!(
            near.starts_with("the distance from node 0 to node 3 (and 1 more) is no more than 10")
        );
        assert!(told(&[10, 255, 255, 10]).contains("is 255, which means that there is no way"));
        let oneway = "the distance between nodes 0 and 3 depends on the direction";
        assert_eq!(told(&[10, 20, 30, 10]), oneway);
    }
}
