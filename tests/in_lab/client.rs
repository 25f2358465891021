// SPDX-License-Identifier: GPL-2.0-only
//! A client of the statistics socket, on the wire format itself: one line of JSON each way.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Instant;

use scx_ballast::observe::Stats;
use serde_json::{Value, json};

use crate::guest::{Node, SLOW, ms, node_of, secs};
use crate::tasks::Task;

const SOCKET: &str = "/var/run/scx/root/stats";

/// One connection. Counters are what happened since the last answer on the same connection.
pub struct Client(BufReader<UnixStream>);

impl Client {
    pub fn try_connect() -> Result<Self, String> {
        let stream = UnixStream::connect(SOCKET).map_err(|err| format!("{SOCKET}: {err}"))?;
        stream.set_read_timeout(Some(secs(3) * SLOW)).unwrap();
        Ok(Self(BufReader::new(stream)))
    }

    /// Connect and set all counters to 0.
    pub fn connect() -> Self {
        let mut client = Self::try_connect().unwrap();
        client.top();
        client
    }

    /// Ask for `target`; an error is the server's text.
    pub fn ask(&mut self, target: &str, args: &[(&str, String)]) -> Result<Value, String> {
        let mut all = json!({ "target": target });
        for (key, value) in args {
            all[*key] = json!(value);
        }
        let request = json!({ "req": "stats", "args": all });
        let mut line = String::new();
        // In one piece: the server reads lines.
        let sent = self
            .0
            .get_mut()
            .write_all(format!("{request}\n").as_bytes());
        let done = sent.and_then(|()| self.0.read_line(&mut line));
        done.map_err(|err| format!("the socket: {err}"))?;
        let answer: Value = serde_json::from_str(&line).map_err(|err| format!("{line}: {err}"))?;
        let text = &answer["args"]["resp"];
        match answer["errno"].as_i64() {
            Some(0) => Ok(text.clone()),
            _ => Err(text.as_str().map_or(text.to_string(), str::to_string)),
        }
    }

    pub fn top(&mut self) -> Stats {
        let answer = self.ask("top", &[]).unwrap();
        serde_json::from_value(answer).expect("all statistics")
    }

    /// Ask for thread `pid` to be moved to the node with kernel id `node`.
    pub fn want(&mut self, pid: i32, node: u32) -> Result<Value, String> {
        self.ask(
            "move",
            &[("pid", pid.to_string()), ("node", node.to_string())],
        )
    }

    /// Say that the process of thread `pid` belongs on the node with kernel id `node`, or nowhere.
    pub fn prefer(&mut self, pid: i32, node: Option<u32>) -> Result<Value, String> {
        let mut args = vec![("pid", pid.to_string())];
        args.extend(node.map(|node| ("node", node.to_string())));
        self.ask("prefer", &args)
    }

    /// Ask for `task` to be moved to node `to` of `nodes`, and wait until it runs there: a running
    /// task goes at its next tick (4 ms), a sleeping one at its next wake-up, a waiting one after its
    /// turn. Returns what happened meanwhile.
    ///
    /// When the CPU that shall take it does not come to run, because the host does not run it, an
    /// idle one rightly takes the task back (R9); the wish is repeated then.
    #[track_caller]
    pub fn move_task(&mut self, task: &Task, nodes: &[Node], to: usize) -> Stats {
        for _ in 0..5 {
            self.top();
            self.want(task.pid(), nodes[to].id).unwrap();
            let began = Instant::now();
            let there = || node_of(nodes, task.cpu()) == to;
            let mut arrived = there();
            while !arrived && began.elapsed() < ms(50) * SLOW {
                sleep(ms(5));
                arrived = there();
            }
            let stats = self.top();
            if arrived {
                return stats;
            }
            assert!(
                stats.pulled_remote > 0,
                "task {} is not moved: {stats:?}",
                task.pid()
            );
        }
        panic!("task {} was pulled back each time", task.pid());
    }
}
