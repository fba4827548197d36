//! The rules of push.

use super::*;

fn ids(range: std::ops::Range<usize>) -> Vec<Id> {
    range.map(|n| Id::from(format!("t{n:05}"))).collect()
}

fn texts(ids: &[Id]) -> Vec<String> {
    ids.iter().map(|id| id.to_string()).collect()
}

fn grant(watch: &mut Watch, plan: &Plan) -> Change {
    watch.granted(plan.number, Some(&texts(&plan.ids)))
}

/// All that join at once, on streams that the server acknowledges.
fn stand(watch: &mut Watch, range: std::ops::Range<usize>) -> Vec<Plan> {
    for id in ids(range) {
        watch.joined(id);
    }
    let mut plans = Vec::new();
    while let Some(plan) = watch.gathered() {
        for old in grant(watch, &plan).retire {
            watch.over(old, Over::Closed);
        }
        plans.push(plan);
    }
    plans
}

fn gathers(watch: &mut Watch, id: &str) -> bool {
    watch.joined(id.into()).gather.is_some()
}

#[test]
fn corner_16_the_larger_stream_stands_before_the_smaller_one_ends() {
    let mut watch = Watch::default();
    assert!(gathers(&mut watch, "a") && !gathers(&mut watch, "b"), "one gathers");
    let first = watch.gathered().unwrap();
    assert_eq!((first.ids.len(), first.more), (2, None));
    assert_eq!(grant(&mut watch, &first).on, ["a".into(), "b".into()] as [Id; 2]);
    assert!(gathers(&mut watch, "c"));
    let second = watch.gathered().unwrap();
    assert_eq!(texts(&second.ids), ["a", "b", "c"]);
    // The old one tells on until the new one is acknowledged, and what is on its way there is heard.
    let change = grant(&mut watch, &second);
    assert_eq!((texts(&change.on), change.off.len()), (vec!["c".to_owned()], 0));
    assert_eq!((change.end, change.retire), (vec![], vec![first.number]));
    let cut = watch.lost(first.number);
    assert_eq!((cut.end, cut.off.len()), (vec![first.number], 0), "it is not opened again");
    assert_eq!(watch.over(first.number, Over::Closed), Change::default());
    assert_eq!(watch.lost(second.number).off.len(), 3);
    assert_eq!(grant(&mut watch, &second).on.len(), 3);
    // The last task takes the stream along.
    assert_eq!(watch.left("a"), Change::default());
    assert_eq!(texts(&watch.ids(second.number)), ["b", "c"], "what has ended is not asked for again");
    watch.left("b");
    assert_eq!(watch.left("c").end, [second.number]);
}

#[test]
fn corner_16_only_what_is_granted_is_pushed_and_the_rest_is_not_asked_again() {
    let mut watch = Watch::default();
    watch.joined("a".into());
    watch.joined("b".into());
    let plan = watch.gathered().unwrap();
    let change = watch.granted(plan.number, Some(&["b".into(), "stranger".into()]));
    assert_eq!((texts(&change.on), change.end.len()), (vec!["b".to_owned()], 0));
    watch.joined("c".into());
    assert_eq!(texts(&watch.gathered().unwrap().ids), ["b", "c"]);
}

#[test]
fn a_task_that_a_stream_tells_of_already_is_pushed_at_once() {
    let mut watch = Watch::default();
    let plan = stand(&mut watch, 0..2).remove(0);
    assert_eq!(watch.joined("t00000".into()), Joined { pushed: true, gather: None });
    watch.lost(plan.number);
    assert_eq!(watch.joined("t00000".into()), Joined::default(), "it is told of again with the others");
    watch.left("t00000");
    assert!(gathers(&mut watch, "t00000"));
}

#[test]
fn a_server_that_does_not_want_it_is_not_asked_again() {
    for refuse in [
        |watch: &mut Watch, plan: &Plan| drop(watch.over(plan.number, Over::Refused)),
        |watch: &mut Watch, plan: &Plan| drop(watch.over(plan.number, Over::TooMuch)),
        |watch: &mut Watch, plan: &Plan| assert_eq!(watch.granted(plan.number, None).end, [plan.number]),
    ] {
        let mut watch = Watch::default();
        watch.joined("a".into());
        let plan = watch.gathered().unwrap();
        refuse(&mut watch, &plan);
        assert!(!gathers(&mut watch, "b") && watch.gathered().is_none());
    }
    let mut watch = Watch::default();
    for (n, asked) in [(0, true), (1, true), (2, true), (3, false)] {
        assert_eq!(gathers(&mut watch, &format!("t{n}")), asked, "{n}");
        if let Some(plan) = watch.gathered() {
            let change = watch.granted(plan.number, Some(&[]));
            assert_eq!(change.end, [plan.number]);
            watch.over(plan.number, Over::Closed);
        }
    }
}

#[test]
fn many_tasks_share_few_streams() {
    let mut watch = Watch::default();
    let streams = stand(&mut watch, 0..20_000);
    let sizes: Vec<usize> = streams.iter().map(|plan| plan.ids.len()).collect();
    assert_eq!(sizes, [MOST_IDS; MOST_STREAMS]);
    let more: Vec<_> = streams.iter().filter_map(|plan| plan.more).collect();
    assert_eq!(more, [Duration::ZERO; MOST_STREAMS - 1], "they need not wait for others");
    assert_eq!(watch.joined("x".into()).gather, None);
    // Places get free: others come in, some at a time, and then all that fit.
    let mut change = Change::default();
    for (n, id) in streams[3].ids.iter().enumerate() {
        change = watch.left(id);
        assert_eq!(change.gather.is_some(), n == MOST_IDS / 8 - 1, "{n}");
    }
    assert_eq!(change.end, [streams[3].number]);
    watch.over(streams[3].number, Over::Closed);
    assert_eq!(watch.gathered().unwrap().ids.len(), MOST_IDS);
}

#[test]
fn what_joins_a_large_stream_waits_the_longer_and_small_ones_become_one() {
    let mut watch = Watch::default();
    stand(&mut watch, 0..MOST_IDS);
    // As long as there are places, a large one stands.
    let small = stand(&mut watch, 3_000..3_010).remove(0);
    assert_eq!((small.ids.len(), watch.streams.len()), (10, 2));
    let joined = stand(&mut watch, 3_010..3_011).remove(0);
    assert_eq!((joined.ids.len(), watch.streams.len()), (11, 2));
    for n in 1..7 {
        stand(&mut watch, n * 10_000..n * 10_000 + FEW * (n + 1));
    }
    // No place is left, and nothing is small beside what comes: the smallest is opened anew.
    assert_eq!(watch.streams.len(), MOST_STREAMS);
    let last = stand(&mut watch, 4_000..4_000 + FEW).remove(0);
    assert_eq!((last.ids.len(), watch.streams.len()), (FEW + 11, MOST_STREAMS));
    stand(&mut watch, 5_000..5_000 + FEW);
    stand(&mut watch, 6_000..6_000 + FEW);
    assert_eq!(watch.joined("x".into()).gather, Some(GATHER * 2));
    // Few are left of two: the next one that comes finds them together.
    let left: Vec<Id> = watch.streams.iter().skip(1).take(2).flat_map(|s| s.ids.iter().skip(3).cloned()).collect();
    left.iter().for_each(|id| drop(watch.left(id)));
    assert_eq!(watch.gathered().unwrap().ids.len(), 7);
}

#[test]
fn a_stream_that_is_not_acknowledged_yet_is_no_base() {
    let mut watch = Watch::default();
    stand(&mut watch, 0..1);
    watch.joined("a".into());
    let first = watch.gathered().unwrap();
    watch.joined("b".into());
    let second = watch.gathered().unwrap();
    assert_eq!((first.ids.len(), texts(&second.ids)), (2, vec!["b".to_owned()]));
    assert_eq!(grant(&mut watch, &first).retire.len(), 1);
    assert!(grant(&mut watch, &second).retire.is_empty());
}

#[test]
fn a_request_has_its_bounds_and_a_server_that_takes_less_is_asked_for_less() {
    let mut watch = Watch::default();
    let long = |n: usize| Id::from(format!("{n:01000}"));
    for n in 0..200 {
        watch.joined(long(n));
    }
    assert_eq!(watch.joined(Id::from("x".repeat(LONGEST))).gather, None);
    let plan = watch.gathered().unwrap();
    assert_eq!(plan.ids.len(), MOST_BYTES / weight(&long(0)));
    assert_eq!(watch.gathered().unwrap().ids.len(), plan.ids.len());

    let mut watch = Watch::default();
    let kept = stand(&mut watch, 0..10).remove(0);
    for id in ids(1_000..2_000) {
        watch.joined(id);
    }
    let plan = watch.gathered().unwrap();
    assert_eq!(watch.over(plan.number, Over::TooMuch).gather, Some(Duration::ZERO));
    let sizes: Vec<usize> = std::iter::from_fn(|| watch.gathered()).map(|plan| plan.ids.len()).collect();
    assert_eq!((sizes, watch.ids(kept.number).len()), (vec![500, 500], 10));

    let mut watch = Watch::default();
    for id in ids(0..1_000) {
        watch.joined(id);
    }
    let plan = watch.gathered().unwrap();
    assert_eq!(watch.granted(plan.number, Some(&texts(&plan.ids[..100]))).on.len(), 100);
    assert_eq!(stand(&mut watch, 2_000..3_000)[0].ids.len(), FEW);
}
