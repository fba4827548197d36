//! A handle is a name, an `Arc` is the life: what C holds is a key (kind, slot, generation), never an address. A NULL,
//! freed, foreign or made-up handle is found out, and an object cannot die while a function uses it.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::client::{Call, Client, Event, HostStream, Input, Queue, Snapshot, TaskHandle};
use crate::error::{Error, Kind, Result};
use crate::ffi::call::mcp_call;
use crate::ffi::client::mcp_client;
use crate::ffi::error::mcp_error;
use crate::ffi::event::mcp_event;
use crate::ffi::input::mcp_input;
use crate::ffi::queue::mcp_queue;
use crate::ffi::result::mcp_result;
use crate::ffi::server::mcp_server;
use crate::ffi::snapshot::mcp_snapshot;
use crate::ffi::stream::mcp_stream;
use crate::ffi::task::mcp_task;
use crate::ffi::text::Texts;
use crate::ffi::text_object::mcp_text;
use crate::protocol::capability::ServerFacts;
use crate::protocol::content::ResultView;

/// An object and the texts that were handed out of it: they live as long as it does.
pub(super) struct Held<T> {
    pub(super) texts: Texts,
    pub(super) object: Arc<T>,
}

impl<T> Held<T> {
    pub(super) fn new(object: Arc<T>) -> Arc<Self> {
        Arc::new(Self { texts: Texts::default(), object })
    }
}

/// What a slot holds.
#[derive(Clone)]
pub(super) enum Stored {
    Client(Arc<Held<Client>>),
    Queue(Arc<Held<Queue>>),
    Call(Arc<Held<Call>>),
    Task(Arc<Held<TaskHandle>>),
    Snapshot(Arc<Held<Snapshot>>),
    Event(Arc<Held<Event>>),
    Input(Arc<Held<Input>>),
    Error(Arc<Held<Error>>),
    Result(Arc<Held<ResultView>>),
    Server(Arc<Held<ServerFacts>>),
    Text(Arc<Held<String>>),
    Stream(Arc<Held<HostStream>>),
}

/// An object that C can hold a name of.
pub(super) trait Named: Sized {
    /// The C type.
    type C;
    /// The kind in the key; above 0, so that no key is NULL.
    const KIND: u8;
    /// The C type's name.
    const WORD: &'static str;
    fn store(held: Arc<Held<Self>>) -> Stored;
    fn find(stored: &Stored) -> Option<&Arc<Held<Self>>>;
}

macro_rules! named {
    ($($variant:ident = $number:literal: $object:ty => $c:ident,)*) => { $(
        impl Named for $object {
            type C = $c;
            const KIND: u8 = $number;
            const WORD: &'static str = stringify!($c);

            fn store(held: Arc<Held<Self>>) -> Stored {
                Stored::$variant(held)
            }

            fn find(stored: &Stored) -> Option<&Arc<Held<Self>>> {
                if let Stored::$variant(held) = stored { Some(held) } else { None }
            }
        }
    )* };
}

named! {
    Client = 1: Client => mcp_client,
    Queue = 2: Queue => mcp_queue,
    Call = 3: Call => mcp_call,
    Task = 4: TaskHandle => mcp_task,
    Snapshot = 5: Snapshot => mcp_snapshot,
    Event = 6: Event => mcp_event,
    Input = 7: Input => mcp_input,
    Error = 8: Error => mcp_error,
    Result = 9: ResultView => mcp_result,
    Server = 10: ServerFacts => mcp_server,
    Text = 11: String => mcp_text,
    Stream = 12: HostStream => mcp_stream,
}

/// The layout of a key, from the top: 8 bits kind, 24 slot, 32 generation; on 32-bit systems 4, 14, 14.
#[cfg(target_pointer_width = "64")]
const BITS: (u32, u32) = (24, 32);
#[cfg(not(target_pointer_width = "64"))]
const BITS: (u32, u32) = (14, 14);

const SLOT_MASK: usize = (1 << BITS.0) - 1;
const GENERATION_MASK: usize = ((1u64 << BITS.1) - 1) as usize;

struct Slot {
    /// Never 0, and never used twice: a slot whose generations are used up is retired.
    generation: usize,
    stored: Option<Stored>,
    /// The event of a callback that is running: C must not free it.
    borrowed: bool,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { slots: Vec::new(), free: Vec::new() });

fn key(kind: u8, slot: usize, generation: usize) -> usize {
    (usize::from(kind) << (BITS.0 + BITS.1)) | (slot << BITS.1) | generation
}

fn bad<T: Named>(why: &str) -> Error {
    Error::new(Kind::Handle, format!("expected a live {} handle but found {why}", T::WORD))
}

/// Gives an object a name.
///
/// # Errors
/// [`Kind::Memory`] where every slot is taken.
pub(super) fn put<T: Named>(object: Arc<T>) -> Result<*mut T::C> {
    insert(object, false)
}

/// Gives the event of a running callback a name that C cannot free.
pub(super) fn lend<T: Named>(object: Arc<T>) -> Result<*mut T::C> {
    insert(object, true)
}

fn insert<T: Named>(object: Arc<T>, borrowed: bool) -> Result<*mut T::C> {
    let stored = Some(T::store(Held::new(object)));
    let mut table = TABLE.write();
    let at = match table.free.pop() {
        Some(at) => at,
        None if table.slots.len() > SLOT_MASK => {
            return Err(Error::new(Kind::Memory, "there are too many handles"));
        }
        None => {
            table.slots.push(Slot { generation: 1, stored: None, borrowed: false });
            table.slots.len() - 1
        }
    };
    let slot = &mut table.slots[at];
    slot.stored = stored;
    slot.borrowed = borrowed;
    Ok(std::ptr::without_provenance_mut(key(T::KIND, at, slot.generation)))
}

/// The object of a name.
///
/// # Errors
/// [`Kind::Handle`] for NULL, a freed handle, one of another kind, and a made-up one.
pub(super) fn get<T: Named>(name: *const T::C) -> Result<Arc<Held<T>>> {
    let table = TABLE.read();
    let slot = table.slots.get(locate::<T>(name)?).ok_or_else(|| bad::<T>("a made-up one"))?;
    let stored = slot.stored.as_ref().filter(|_| slot.generation == name.addr() & GENERATION_MASK);
    stored.and_then(T::find).cloned().ok_or_else(|| bad::<T>("a freed one"))
}

/// Takes a name away. NULL is fine; a second time is an error.
///
/// # Errors
/// As [`get`]; [`Kind::State`] for the event of a running callback.
pub(super) fn free<T: Named>(name: *const T::C) -> Result<Option<Arc<Held<T>>>> {
    if name.is_null() {
        return Ok(None);
    }
    let held = get::<T>(name)?;
    take::<T>(name, false)?;
    Ok(Some(held))
}

/// Takes back the name of a lent event.
pub(super) fn take_back<T: Named>(name: *const T::C) {
    // Nobody else can take it, so this only fails after `fork`, where nothing is worth saving.
    take::<T>(name, true).unwrap_or_default();
}

fn take<T: Named>(name: *const T::C, lent: bool) -> Result<()> {
    let at = locate::<T>(name)?;
    let gone = {
        let mut table = TABLE.write();
        let slot = table.slots.get_mut(at).ok_or_else(|| bad::<T>("a made-up one"))?;
        if slot.generation != name.addr() & GENERATION_MASK || slot.stored.is_none() {
            return Err(bad::<T>("a freed one"));
        }
        if slot.borrowed && !lent {
            return Err(Error::new(
                Kind::State,
                "the event is borrowed for the callback; mcp_event_keep gives one to free",
            ));
        }
        let gone = slot.stored.take();
        slot.generation += 1;
        if slot.generation <= GENERATION_MASK {
            table.free.push(at);
        }
        gone
    };
    // The object may end here, and with it code of the host's: outside the lock.
    drop(gone);
    Ok(())
}

fn locate<T: Named>(name: *const T::C) -> Result<usize> {
    let bits = name.addr();
    if bits == 0 {
        return Err(bad::<T>("NULL"));
    }
    if bits >> (BITS.0 + BITS.1) != usize::from(T::KIND) {
        return Err(bad::<T>("one of another kind"));
    }
    Ok((bits >> BITS.1) & SLOT_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T>(outcome: Result<T>) -> String {
        outcome.err().map(|error| error.message().to_owned()).unwrap_or_default()
    }

    #[test]
    fn a_wrong_handle_is_found_out() {
        let name = put(Arc::new("x".to_owned())).unwrap();
        assert_eq!(get::<String>(name).unwrap().object.as_str(), "x");
        let as_error: *const mcp_error = name.cast();
        assert_eq!(message(get::<Error>(as_error)), "expected a live mcp_error handle but found one of another kind");
        assert!(free::<String>(name).unwrap().is_some());
        assert_eq!(message(get::<String>(name)), "expected a live mcp_text handle but found a freed one");
        assert_eq!(message(free::<String>(name)), "expected a live mcp_text handle but found a freed one");
        assert!(free::<String>(std::ptr::null()).unwrap().is_none());
        assert_eq!(message(get::<String>(std::ptr::null())), "expected a live mcp_text handle but found NULL");
        let made_up = std::ptr::without_provenance(key(11, 0xFF_FFFF & SLOT_MASK, 1));
        assert_eq!(message(get::<String>(made_up)), "expected a live mcp_text handle but found a made-up one");
    }

    #[test]
    fn a_reused_slot_has_another_generation() {
        let first = put(Arc::new("a".to_owned())).unwrap();
        free::<String>(first).unwrap();
        let second = put(Arc::new("b".to_owned())).unwrap();
        assert_ne!(first.addr(), second.addr());
        assert!(get::<String>(first).is_err());
        free::<String>(second).unwrap();
    }

    #[test]
    fn a_lent_event_cannot_be_freed_by_c() {
        let name = lend(Arc::new("e".to_owned())).unwrap();
        assert_eq!(free::<String>(name).err().map(|e| e.kind()), Some(Kind::State));
        assert!(get::<String>(name).is_ok());
        take_back::<String>(name);
        assert!(get::<String>(name).is_err());
    }
}
