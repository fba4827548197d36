//! Which process this is, in a word that others can ask about: whether a process that left its name in a file is gone.

/// The name of this process; `None` where the system offers none that others could look up.
pub(crate) fn process_name() -> Option<String> {
    let world = world()?;
    let (pid, started) = (super::process_id(), started("self")?);
    Some(format!("{world} {pid} {started}"))
}

/// True where the process of this name has certainly ended; false also where nobody can tell.
pub(crate) fn is_gone(name: &str) -> bool {
    let Some(here) = world() else { return false };
    let Some((world, rest)) = name.split_once(' ') else { return false };
    let Some((pid, start)) = rest.split_once(' ') else { return false };
    // Another boot, or other process ids (a container): nothing can be said.
    world == here && pid.parse::<u32>().is_ok() && started(pid).is_none_or(|found| found != start)
}

/// Where process ids mean the same: this boot of the machine, this namespace.
fn world() -> Option<String> {
    let boot = super::boot_id()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let space = space.to_str()?.trim_start_matches("pid:").to_owned();
    Some(format!("{boot}{space}"))
}

/// When a process was started, by the system's own count; `None` where there is none, or only its remains (a zombie).
fn started(pid: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_has_ended_and_a_reused_id_is_another_one() {
        let me = process_name().unwrap();
        assert!(!is_gone(&me));
        let (before, _) = me.rsplit_once(' ').unwrap();
        assert!(is_gone(&format!("{before} 1")), "the same id, started at another time");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let world = me.split(' ').next().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&format!("{world} {} 12345", child.id())));
        assert!(!is_gone("elsewhere 1 1") && !is_gone("") && !is_gone("x y z"), "nobody can tell");
    }
}
