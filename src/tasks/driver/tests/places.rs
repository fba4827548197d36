//! Whose place on a stream it is.

use super::world::{Plan, World};
use super::*;
use crate::spawn::Job;

/// No thread ever runs.
struct Nobody;

impl Spawn for Nobody {
    fn spawn(&self, _: &'static str, _: Job) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_task_that_was_lost_takes_no_place_from_the_one_that_is_followed_again_under_its_id() {
    let mut world = World::new(31);
    world.engine = Engine::new(world.clock.clone(), world.clock.clone(), Arc::new(Nobody), 1);
    world.group = world.engine.group().unwrap();
    let server = world.server("http://a", Duration::ZERO);
    let first = world.follow(&server, "t", Plan::default());
    let place = |world: &World| world.group.pushes.entry("t");
    assert!(Arc::ptr_eq(&place(&world).unwrap(), &first));
    world.group.lost(first.key());
    assert!(first.has_ended() && place(&world).is_none());
    let second = world.adopt(&server, "t");
    // The thread that ended the first one comes late.
    world.group.pushes.leave(&first);
    assert!(Arc::ptr_eq(&place(&world).unwrap(), &second));
    world.group.pushes.leave(&second);
    assert!(place(&world).is_none());
}
