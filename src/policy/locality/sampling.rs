// SPDX-License-Identifier: GPL-2.0-only
//! When to look at a process's memory again.
//!
//! Soon while the answer changes, rarely when it is stable: the period is halved when two samples
//! differ, and doubled when they agree, between [`MIN_PERIOD_MS`] and [`MAX_PERIOD_MS`]. A process that
//! was placed by a memory policy is looked at as rarely as can be, only to notice when that ends.
//!
//! All of it together stays within a [`Budget`] of CPU time. It is a purse: it fills at a fixed rate
//! up to a limit, a sample is taken while something is in it, and may take it below zero. So even a
//! process that costs more than the purse holds is looked at, and afterwards nobody is for a while. What a sample will cost
//! is a guess; when it is known what it did, the difference is paid or paid back. So over time no more is spent than came in.

use serde::{Deserialize, Serialize};

use super::evidence::{STABLE_PERMILLE, Standing};

pub const MIN_PERIOD_MS: u32 = 250;
pub const MAX_PERIOD_MS: u32 = 60_000;
/// Samples that differ by less, in permille, agree; it is about what chance makes of 200 addresses.
const AGREE_PERMILLE: u16 = 60;

/// The period after a sample that made the evidence what `standing` and `drift` say.
pub fn next_period(period_ms: u32, standing: Standing, drift: Option<u16>) -> u32 {
    let period_ms = match (standing, drift) {
        (Standing::Void, _) => MAX_PERIOD_MS,
        // Nothing was there to be seen: later.
        (Standing::Unknown | Standing::FirstTouch | Standing::Stale, _) => {
            period_ms.saturating_mul(2)
        }
        (_, None) => period_ms,
        (_, Some(drift)) if drift > STABLE_PERMILLE => period_ms / 2,
        (_, Some(drift)) if drift <= AGREE_PERMILLE => period_ms.saturating_mul(2),
        (_, Some(_)) => period_ms,
    };
    period_ms.clamp(MIN_PERIOD_MS, MAX_PERIOD_MS)
}

/// A sample is too old after this time: one was missed, and a second for a daemon that is late.
pub fn stale_after_ms(period_ms: u32) -> u64 {
    2 * u64::from(period_ms) + 1_000
}

/// When a process is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub period_ms: u32,
    pub next_ms: u64,
}

impl Schedule {
    /// Of a process that was never looked at: as soon as can be.
    pub fn fresh() -> Self {
        Self {
            period_ms: MIN_PERIOD_MS,
            next_ms: 0,
        }
    }

    /// After a sample at `now_ms`, or an attempt that brought no answer.
    pub fn sampled(&mut self, now_ms: u64, standing: Standing, drift: Option<u16>) {
        self.period_ms = next_period(self.period_ms, standing, drift);
        self.next_ms = now_ms.saturating_add(self.period_ms.into());
    }
}

/// The purse holds what comes in so many seconds: the first samples of a process are the dearest, and two are needed.
pub const PURSE_S: u32 = 5;

/// A process that could be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    pub tgid: i32,
    pub schedule: Schedule,
    pub standing: Standing,
    /// CPU time that it had lately, in thousandths of a CPU.
    pub busy: u32,
    /// What looking costs, in us; by the last time, or a guess.
    pub cost_us: u32,
}

/// CPU time for looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// What comes in per second of time.
    per_s_us: u32,
    /// What is there, in ns; below zero after an expensive sample.
    purse_ns: i64,
    filled_ms: u64,
}

impl Budget {
    /// `per_s_us` microseconds of CPU time per second; the purse is full.
    pub fn new(per_s_us: u32, now_ms: u64) -> Self {
        Self {
            per_s_us,
            purse_ns: most_ns(per_s_us),
            filled_ms: now_ms,
        }
    }

    fn fill(&mut self, now_ms: u64) {
        // A purse is never deeper in debt than one sample of u32::MAX us: an hour and a bit fills any.
        let ms = now_ms.saturating_sub(self.filled_ms).min(1 << 32) as i64;
        let income = i64::from(self.per_s_us).saturating_mul(ms);
        let most_ns = most_ns(self.per_s_us);
        self.purse_ns = self.purse_ns.saturating_add(income).min(most_ns);
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// Pay for a sample out of turn; `false`: nothing is in the purse, and nothing was paid.
    pub fn pay(&mut self, cost_us: u32, now_ms: u64) -> bool {
        self.fill(now_ms);
        if self.purse_ns <= 0 {
            return false;
        }
        self.purse_ns -= i64::from(cost_us) * 1000;
        true
    }

    /// A sample that so much was paid for has cost so much.
    pub fn settle(&mut self, paid_us: u32, cost_us: u32) {
        let back_ns = (i64::from(paid_us) - i64::from(cost_us)) * 1000;
        let most_ns = most_ns(self.per_s_us);
        self.purse_ns = self.purse_ns.saturating_add(back_ns).min(most_ns);
    }

    /// When something is in the purse, if nothing is taken any more: now, or later.
    pub fn ready_ms(&self) -> u64 {
        let debt_ns = (1 - self.purse_ns).max(0) as u64;
        let wait_ms = debt_ns.div_ceil(u64::from(self.per_s_us.max(1)));
        self.filled_ms.saturating_add(wait_ms)
    }

    /// The processes to look at now: of those that are due, first those for whom nothing is known that
    /// tasks could be placed by, then the busiest, then the longest due. What they cost is paid.
    pub fn take(&mut self, due: &mut [Due], now_ms: u64, chosen: &mut Vec<i32>) {
        self.fill(now_ms);
        chosen.clear();
        due.sort_unstable_by_key(|due| {
            // Whoever has waited for a whole period of its own more goes before everybody.
            let late_ms = now_ms.saturating_sub(due.schedule.next_ms);
            let overdue = late_ms > u64::from(due.schedule.period_ms.max(1_000));
            let overdue = std::cmp::Reverse(if overdue { late_ms } else { 0 });
            let is_known = matches!(due.standing, Standing::Known | Standing::Void);
            let busy = std::cmp::Reverse(due.busy);
            (overdue, is_known, busy, due.schedule.next_ms, due.tgid)
        });
        for due in due.iter().filter(|due| due.schedule.next_ms <= now_ms) {
            if self.purse_ns <= 0 {
                break;
            }
            self.purse_ns -= i64::from(due.cost_us) * 1000;
            chosen.push(due.tgid);
        }
    }
}

fn most_ns(per_s_us: u32) -> i64 {
    i64::from(per_s_us) * 1000 * i64::from(PURSE_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(tgid: i32, next_ms: u64, standing: Standing, busy: u32, cost_us: u32) -> Due {
        Due {
            tgid,
            schedule: Schedule {
                period_ms: 1000,
                next_ms,
            },
            standing,
            busy,
            cost_us,
        }
    }

    fn take(budget: &mut Budget, mut due: Vec<Due>, now_ms: u64) -> Vec<i32> {
        let mut chosen = Vec::new();
        budget.take(&mut due, now_ms, &mut chosen);
        chosen
    }

    #[test]
    fn sooner_while_it_changes_later_while_it_does_not() {
        let known = |drift| next_period(4_000, Standing::Known, Some(drift));
        assert_eq!(known(60), 8_000);
        assert_eq!(known(100), 4_000);
        assert_eq!(next_period(4_000, Standing::Unstable, Some(151)), 2_000);
        assert_eq!(next_period(4_000, Standing::Few, None), 4_000);
        assert_eq!(next_period(250, Standing::Unstable, Some(900)), 250);
        assert_eq!(next_period(60_000, Standing::Known, Some(0)), 60_000);
        assert_eq!(next_period(250, Standing::Void, None), 60_000);
    }

    #[test]
    fn the_unknown_and_the_busy_come_first() {
        let all = vec![
            due(1, 900, Standing::Known, 1000, 1),
            due(2, 900, Standing::Unknown, 10, 1),
            due(3, 900, Standing::Few, 500, 1),
            due(4, 1001, Standing::Unknown, 9999, 1),
            due(5, 800, Standing::Known, 1000, 1),
        ];
        assert_eq!(take(&mut Budget::new(1000, 0), all, 1000), [3, 2, 5, 1]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        // Overdue by 4 s with a period of 1 s: before the busy unknown one.
        let all = vec![
            due(1, 9_000, Standing::Unknown, 9999, 1),
            due(2, 5_000, Standing::Known, 1, 1),
        ];
        assert_eq!(take(&mut Budget::new(1000, 0), all, 9_000), [2, 1]);
    }

    #[test]
    fn the_budget_is_kept_on_average() {
        // 2 ms per second; each costs 7.5 ms. The purse of 10 ms allows two and is 5 ms in debt.
        let mut budget = Budget::new(2_000, 0);
        let all: Vec<Due> = (0..9).map(|i| due(i, 0, Standing::Few, 0, 7_500)).collect();
        assert_eq!(take(&mut budget, all.clone(), 0).len(), 2);
        assert_eq!(take(&mut budget, all.clone(), 2_500).len(), 0);
        // 2501 ms have brought 5002 us.
        assert_eq!(budget.ready_ms(), 2_501);
        assert_eq!(take(&mut budget, all.clone(), 2_501).len(), 1);
        // 7.5 ms less 2 us are missing, and it has to be more than nothing.
        assert_eq!(budget.ready_ms(), 2_501 + 3_750);
        let mut taken = 0;
        for second in 1..=100 {
            taken += take(&mut budget, all.clone(), 2_501 + 1000 * second).len();
        }
        // 200 ms in 100 s pay for 26 and two thirds; debts and the purse make it one more or less.
        assert!((25..=28).contains(&taken), "{taken}");
    }

    #[test]
    fn what_it_did_cost_is_paid() {
        let mut budget = Budget::new(2_000, 0);
        assert!(budget.pay(1_000, 0));
        // 9 ms are left of 10, and 20 were missing.
        budget.settle(1_000, 21_000);
        assert!(!budget.pay(1, 5_500));
        assert!(budget.pay(8_000, 5_501));
        // It was for nothing: all of it comes back, and no more than the purse holds.
        budget.settle(8_000, 0);
        assert!(budget.ready_ms() <= 5_501);
        budget.settle(50_000, 0);
        assert!(budget.pay(10_000, 5_501) && !budget.pay(1, 5_501));
    }
}
