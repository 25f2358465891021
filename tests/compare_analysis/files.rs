// SPDX-License-Identifier: GPL-2.0-only
//! Results files that are unfinished, or broken.

use scx_ballast::compare::analysis::{AnalysisError, analyse};
use scx_ballast::compare::record::{Discarded, Record};

use crate::made::{analysed, comparison, effect, made, plan, run, warned};

#[test]
fn runs_that_were_given_up_are_not_unfinished() {
    let mut records = comparison(&made(7));
    let Some(Record::Run(last)) = records.pop() else {
        panic!("the last record is a run");
    };
    let discarded = |run: &scx_ballast::compare::record::Run| {
        Record::Discarded(Discarded {
            block: run.block,
            arm: run.arm,
            benchmark: run.benchmark,
            at: run.at.clone(),
            reason: "bypass".into(),
        })
    };
    records.push(discarded(&last));
    records.push(discarded(&last));
    let found = analysed(&[records.clone()]);
    assert!(
        warned(&found, "23 of 24 runs: 1 was tried and given up"),
        "{:?}",
        found.warnings
    );
    assert!(!warned(&found, "unfinished"));
    // One more is missing that nobody tried.
    let at = records
        .iter()
        .rposition(|record| matches!(record, Record::Run(_)));
    records.remove(at.unwrap());
    assert!(warned(&analysed(&[records]), "unfinished: 22 of 24"));
}

#[test]
fn unfinished_and_discarded_are_told() {
    let mut records = comparison(&made(7));
    records.truncate(12);
    records.push(Record::Discarded(Discarded {
        block: 5,
        arm: 1,
        benchmark: 0,
        at: "2026-11-30T12:00:00Z".into(),
        reason: "the scheduler was gone".into(),
    }));
    let found = analysed(&[records]);
    assert!(warned(&found, "11 of 24 runs") && warned(&found, "the scheduler was gone"));
    let pairs = effect(&found).pairs;
    assert_eq!(pairs, 5, "the sixth block has the base alone");
    // A plan without a run is a comparison about which nothing is known yet.
    let nothing = analysed(&[comparison(&made(7))[..1].to_vec()]);
    assert_eq!(nothing.rows[0].arms, [None, None]);
}

#[test]
fn what_is_no_comparison_is_an_error() {
    let sound = comparison(&made(8));
    let broken = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = sound.clone();
        change(&mut records);
        analyse(&[records]).expect_err("an error").to_string()
    };
    assert_eq!(analyse(&[]), Err(AnalysisError::NoFile));
    assert_eq!(analyse(&[vec![]]), Err(AnalysisError::NoPlan { file: 1 }));
    assert!(broken(&|r| drop(r.remove(0))).contains("begin with a plan"));
    assert!(broken(&|r| r.push(r[0].clone())).contains("second plan"));
    assert!(broken(&|r| r.push(r[1].clone())).contains("second run of \"bench/0\""));
    assert!(broken(&|r| plan(r).format = 99).contains("format 99"));
    assert!(broken(&|r| plan(r).arms.clear()).contains("no arms"));
    assert!(broken(&|r| plan(r).arms[1].label = "eevdf".into()).contains("two arms"));
    assert!(broken(&|r| plan(r).arms[1].twin_of = Some(1)).contains("copy of arm 1"));
    assert!(broken(&|r| r.push(run(0, 9, 0, &[]))).contains("arm 9"));
    assert!(broken(&|r| r.push(run(0, 0, 3, &[]))).contains("benchmark 3"));
    assert!(broken(&|r| r.push(run(12, 0, 0, &[("time", 1.0)]))).contains("block 12"));
    assert!(broken(&|r| r[1] = run(0, 0, 0, &[])).contains("no value of \"time\""));
    for value in [f64::NAN, f64::INFINITY, -1e300] {
        let unfit = broken(&|r| r[1] = run(0, 0, 0, &[("time", value)]));
        assert!(unfit.contains("cannot have been measured"), "{unfit}");
    }
}
