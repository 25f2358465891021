// SPDX-License-Identifier: GPL-2.0-only
//! Whether what a trace's header says of the machine and of the limits fits together.
//!
//! All that can be derived twice is compared: lists by node or by LLC have one length, a node has the CPUs of its LLCs,
//! no limit is above them ([`compile`](super::compile)). A header that passes here can be subscripted by any of its
//! nodes and LLCs. What a rule set says is not compared: another version's limits are decided by all the same.

use super::observation::{MOST_CPUS, Shape};
use super::record::Header;

/// Nodes that a mask has bits for.
const MOST_NODES: usize = 64;

/// Whether the header's numbers fit together.
///
/// # Errors
/// Which contradict each other, and what to do, in one sentence.
pub fn check(header: &Header) -> Result<(), String> {
    let shape = &header.shape;
    lengths(header)
        .and_then(|()| names(header))
        .and_then(|()| llcs(shape))
        .and_then(|()| cpus(shape))
        .and_then(|()| limits(header))
        .map_err(|what| {
            format!(
                "the header contradicts itself: {what}. If the line was changed, take that back; else record the trace again"
            )
        })
}

/// Limits by node.
fn by_node(header: &Header) -> [(&'static str, &[u32]); 3] {
    let limits = &header.limits;
    [
        ("limits.fork.max_running", &limits.fork.max_running),
        ("limits.run_time.max_running", &limits.run_time.max_running),
        (
            "limits.preferred.max_running",
            &limits.preferred.max_running,
        ),
    ]
}

fn lengths(header: &Header) -> Result<(), String> {
    let shape = &header.shape;
    let nodes = shape.nodes();
    if !(1..=MOST_NODES).contains(&nodes) {
        return Err(format!(
            "shape.weight has {nodes} nodes, and a machine has 1 to {MOST_NODES}"
        ));
    }
    let lists = [
        ("node_ids", header.node_ids.len()),
        ("shape.order", shape.order.len()),
        ("shape.first_llc", shape.first_llc.len()),
    ];
    let limits = by_node(header).map(|(name, list)| (name, list.len()));
    let mut all = lists.into_iter().chain(limits);
    if let Some((name, len)) = all.find(|&(_, len)| len != nodes) {
        return Err(format!(
            "{name} has {len} nodes, and shape.weight has {nodes}"
        ));
    }
    let (llcs, of_nodes) = (shape.llc_weight.len(), shape.llc_node.len());
    if llcs != of_nodes {
        return Err(format!(
            "shape.llc_node has {of_nodes} LLCs, and shape.llc_weight has {llcs}"
        ));
    }
    Ok(())
}

/// Each node has an id of its own, and looks at itself first and then at each other one once.
fn names(header: &Header) -> Result<(), String> {
    let ids = &header.node_ids;
    let mut at = 1..ids.len();
    if let Some(twice) = at.find(|&at| ids[..at].contains(&ids[at])) {
        return Err(format!("node_ids has {} twice", ids[twice]));
    }
    let nodes = header.shape.nodes() as u8;
    for (node, order) in header.shape.order.iter().enumerate() {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..nodes) {
            return Err(format!(
                "shape.order[{node}] is {order:?}, and names each node from 0 to {} once",
                nodes - 1
            ));
        }
        if usize::from(order[0]) != node {
            return Err(format!(
                "shape.order[{node}] begins with node {}, and a node looks at itself first",
                order[0]
            ));
        }
    }
    Ok(())
}

/// Each node has LLCs, one after the other.
fn llcs(shape: &Shape) -> Result<(), String> {
    let (first, llcs) = (&shape.first_llc, shape.llc_weight.len());
    let ascending = first.is_sorted_by(|one, next| one < next);
    let ends = first.last().is_some_and(|&first| usize::from(first) < llcs);
    if first[0] != 0 || !ascending || !ends {
        return Err(format!(
            "shape.first_llc is {first:?}, and the nodes' LLCs begin with 0, each node's behind the last one's, among \
             the {llcs} of shape.llc_weight"
        ));
    }
    for node in 0..shape.nodes() {
        let mut of_node = shape.llcs_of(node);
        if let Some(llc) = of_node.find(|&llc| usize::from(shape.llc_node[llc]) != node) {
            return Err(format!(
                "LLC {llc} is on node {} by shape.llc_node, and on node {node} by shape.first_llc",
                shape.llc_node[llc]
            ));
        }
    }
    Ok(())
}

/// Each LLC has CPUs, and a node has those of its LLCs.
fn cpus(shape: &Shape) -> Result<(), String> {
    let weights = shape.llc_weight.iter().enumerate();
    if let Some((llc, cpus)) = weights
        .clone()
        .find(|(_, cpus)| !(1..=MOST_CPUS).contains(*cpus))
    {
        return Err(format!(
            "shape.llc_weight[{llc}] is {cpus}, and an LLC has 1 to {MOST_CPUS} CPUs"
        ));
    }
    for (node, &weight) in shape.weight.iter().enumerate() {
        let of_llcs = &shape.llc_weight[shape.llcs_of(node)];
        let cpus: u64 = of_llcs.iter().map(|&cpus| u64::from(cpus)).sum();
        if cpus != u64::from(weight) {
            return Err(format!(
                "node {node} has {weight} CPUs by shape.weight, and its LLCs have {cpus} by shape.llc_weight"
            ));
        }
        if weight > MOST_CPUS {
            return Err(format!(
                "shape.weight[{node}] is {weight}, and a node has at most {MOST_CPUS} CPUs"
            ));
        }
    }
    Ok(())
}

/// No tolerance applies to waiting tasks (R9).
fn limits(header: &Header) -> Result<(), String> {
    for (name, list) in by_node(header) {
        let mut nodes = list.iter().zip(&header.shape.weight).enumerate();
        if let Some((node, (most, weight))) = nodes.find(|(_, (most, weight))| most > weight) {
            return Err(format!(
                "{name}[{node}] is {most}, and the node has {weight} CPUs by shape.weight, which no limit is above"
            ));
        }
    }
    Ok(())
}
