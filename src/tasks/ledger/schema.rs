//! The tables of the ledger's file, and each statement on them. Every function runs inside a transaction of `file.rs`.
//!
//! `seat`: one row for each client that has the file open; it names the process and says until when it counts as alive.
//! `task`: one row for each task, with the seat that follows it and the fencing token of that. A task whose seat has no
//! row is free. `fence`: the last token that was given out; no token is ever given out twice.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::protocol::json::Json;
use crate::tasks::ledger::written::{
    nanos, read_answers, read_task, reason_number, reason_of, wall_of, write_answers, write_task,
};
use crate::tasks::ledger::{Record, TaskAbout, TaskKey};

/// "MCPl": marks a file as a ledger of ours.
pub(super) const APPLICATION: i32 = 0x4d43_506c;
/// The version of the tables below. A file of an older one is brought up to it by [`MIGRATIONS`].
pub(super) const VERSION: i32 = MIGRATIONS.len() as i32;

/// The steps from each version to the next; the first makes the tables.
pub(super) const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE seat (
        id INTEGER PRIMARY KEY AUTOINCREMENT, process TEXT, clock TEXT NOT NULL, until INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE fence (last INTEGER NOT NULL) STRICT;
    INSERT INTO fence VALUES (0);
    CREATE TABLE task (
        n INTEGER PRIMARY KEY, server TEXT NOT NULL, id TEXT NOT NULL, tool TEXT NOT NULL, tool_call_id TEXT,
        context TEXT, arguments_digest TEXT, keep_result INTEGER NOT NULL, received INTEGER NOT NULL,
        stored INTEGER NOT NULL, last TEXT, raw TEXT, answers TEXT NOT NULL, cancel_pending INTEGER NOT NULL,
        reason INTEGER, acknowledged INTEGER NOT NULL, seat INTEGER NOT NULL, token INTEGER NOT NULL,
        UNIQUE (server, id)
    ) STRICT;
    CREATE INDEX task_outstanding ON task (server, received) WHERE acknowledged = 0;
    CREATE INDEX task_ended ON task (acknowledged, stored) WHERE reason IS NOT NULL;
"];

const COLUMNS: &str = "server, id, tool, tool_call_id, context, arguments_digest, keep_result, received, stored, last, \
     raw, answers, cancel_pending, reason, acknowledged, token";

/// A moment on the clock that leases run on: its name, and milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub clock: Arc<str>,
    pub ms: i64,
}

/// Takes a seat. Returns its number, which is never given out again.
pub(super) fn sit(db: &Connection, process: Option<&str>, now: &Tick, until: i64) -> Result<i64> {
    let sql = "INSERT INTO seat (process, clock, until) VALUES (?1, ?2, ?3) RETURNING id";
    db.prepare_cached(sql)?.query_row(params![process, &*now.clock, until], |row| row.get(0))
}

/// Renews a lease. True where it had not run out.
pub(super) fn renew(db: &Connection, seat: i64, process: Option<&str>, now: &Tick, until: i64) -> Result<bool> {
    let sql = "UPDATE seat SET clock = ?2, until = ?3 WHERE id = ?1";
    if db.prepare_cached(sql)?.execute(params![seat, &*now.clock, until])? > 0 {
        return Ok(true);
    }
    let sql = "INSERT INTO seat (id, process, clock, until) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute(params![seat, process, &*now.clock, until])?;
    Ok(false)
}

/// Gives a seat up.
pub(super) fn stand_up(db: &Connection, seat: i64) -> Result<()> {
    db.prepare_cached("DELETE FROM seat WHERE id = ?1")?.execute([seat]).map(drop)
}

/// Takes away the seats whose lease ran out, whose machine was started anew since, or whose process is gone: their
/// tasks are free then. A process that only slept finds its tokens outdated.
pub(super) fn bury(db: &Connection, own: i64, now: &Tick, gone: &dyn Fn(&str) -> bool) -> Result<()> {
    let mut statement = db.prepare_cached("SELECT id, process, clock, until FROM seat WHERE id <> ?1")?;
    let mut rows = statement.query([own])?;
    let mut dead = Vec::new();
    while let Some(row) = rows.next()? {
        let (process, clock): (Option<String>, String) = (row.get(1)?, row.get(2)?);
        if *clock != *now.clock || row.get::<_, i64>(3)? <= now.ms || process.is_some_and(|name| gone(&name)) {
            dead.push(row.get(0)?);
        }
    }
    dead.into_iter().try_for_each(|seat| stand_up(db, seat))
}

fn next_token(db: &Connection) -> Result<i64> {
    db.prepare_cached("UPDATE fence SET last = last + 1 RETURNING last")?.query_row([], |row| row.get(0))
}

/// Stores a new task. One of the same key is replaced, whoever has it: the server has just given it to us.
pub(super) fn insert(db: &Connection, record: &Record, seat: i64) -> Result<i64> {
    let sql = "INSERT INTO task (tool, tool_call_id, context, arguments_digest, keep_result, received, stored, last, raw, \
         answers, cancel_pending, reason, acknowledged, server, id, seat, token) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) \
         ON CONFLICT (server, id) DO UPDATE SET (tool, tool_call_id, context, arguments_digest, keep_result, received, \
         stored, last, raw, answers, cancel_pending, reason, acknowledged, seat, token) = (excluded.tool, \
         excluded.tool_call_id, excluded.context, excluded.arguments_digest, excluded.keep_result, excluded.received, \
         excluded.stored, excluded.last, excluded.raw, excluded.answers, excluded.cancel_pending, excluded.reason, \
         excluded.acknowledged, excluded.seat, excluded.token)";
    let (token, about) = (next_token(db)?, &record.about);
    let (last, raw) = texts(record);
    db.prepare_cached(sql)?.execute(params![
        about.tool,
        about.tool_call_id,
        about.host.as_ref().map(Json::text),
        about.arguments_digest,
        about.keep_result,
        nanos(record.received),
        nanos(record.stored),
        last,
        raw,
        write_answers(&record.answers),
        record.cancel_pending,
        record.end.and_then(reason_number),
        record.acknowledged,
        &*record.key.server,
        &*record.key.id,
        seat,
        token,
    ])?;
    Ok(token)
}

/// Stores how a task stands now. False where the token is outdated: somebody else follows it.
pub(super) fn update(db: &Connection, record: &Record, token: i64) -> Result<bool> {
    let sql = "UPDATE task SET stored = ?4, last = ?5, raw = ?6, answers = ?7, cancel_pending = ?8, reason = ?9, \
         acknowledged = CASE WHEN ?9 IS NULL THEN 0 ELSE max(acknowledged, ?10) END WHERE server = ?1 AND id = ?2 AND token = ?3";
    let (last, raw) = texts(record);
    let changed = db.prepare_cached(sql)?.execute(params![
        &*record.key.server,
        &*record.key.id,
        token,
        nanos(record.stored),
        last,
        raw,
        write_answers(&record.answers),
        record.cancel_pending,
        record.end.and_then(reason_number),
        record.acknowledged,
    ])?;
    Ok(changed > 0)
}

fn texts(record: &Record) -> (Option<String>, Option<String>) {
    match &record.last {
        None => (None, None),
        Some(task) => {
            let (last, raw) = write_task(task);
            (Some(last), raw)
        }
    }
}

/// The record of a task, and its token.
pub(super) fn find(db: &Connection, key: &TaskKey) -> Result<Option<(Record, i64)>> {
    let sql = format!("SELECT {COLUMNS} FROM task WHERE server = ?1 AND id = ?2");
    db.prepare_cached(&sql)?.query_row([&*key.server, &*key.id], read).optional()
}

/// Takes a task for a seat, unless another seat has it. The inner `None` is "elsewhere".
pub(super) fn take(db: &Connection, key: &TaskKey, seat: i64) -> Result<Option<Option<(Record, i64)>>> {
    let Some((record, _)) = find(db, key)? else { return Ok(None) };
    let sql = "UPDATE task SET seat = ?3, token = ?4 WHERE server = ?1 AND id = ?2 \
         AND (seat = ?3 OR seat NOT IN (SELECT id FROM seat))";
    let token = next_token(db)?;
    let taken = db.prepare_cached(sql)?.execute(params![&*key.server, &*key.id, seat, token])?;
    Ok(Some((taken > 0).then_some((record, token))))
}

/// Takes all outstanding tasks of a server that no seat has.
pub(super) fn claim(db: &Connection, server: &str, seat: i64) -> Result<Vec<(Record, i64)>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM task WHERE server = ?1 AND acknowledged = 0 AND seat NOT IN (SELECT id FROM seat) \
         ORDER BY received, id"
    );
    let mut found = db.prepare_cached(&sql)?.query_map([server], read)?.collect::<Result<Vec<_>>>()?;
    for (record, token) in &mut found {
        *token = next_token(db)?;
        let sql = "UPDATE task SET seat = ?3, token = ?4 WHERE server = ?1 AND id = ?2";
        db.prepare_cached(sql)?.execute(params![&*record.key.server, &*record.key.id, seat, *token])?;
    }
    Ok(found)
}

/// The outstanding tasks of a server that a seat has.
pub(super) fn outstanding(db: &Connection, server: &str, seat: i64) -> Result<Vec<Record>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM task WHERE server = ?1 AND acknowledged = 0 AND seat = ?2 ORDER BY received, id"
    );
    db.prepare_cached(&sql)?.query_map(params![server, seat], |row| Ok(read(row)?.0))?.collect()
}

/// The host has the end: the result goes, how the task stood stays. False where there is no end, it was acknowledged
/// before, or the token is outdated.
pub(super) fn acknowledge(db: &Connection, key: &TaskKey, token: i64) -> Result<bool> {
    let Some((mut record, have)) = find(db, key)? else { return Ok(false) };
    if record.end.is_none() || record.acknowledged || have != token {
        return Ok(false);
    }
    record.acknowledged = true;
    record.drop_result();
    update(db, &record, token)
}

/// Takes a record out. False where there is none with this token.
pub(super) fn remove(db: &Connection, key: &TaskKey, token: i64) -> Result<bool> {
    let sql = "DELETE FROM task WHERE server = ?1 AND id = ?2 AND token = ?3";
    Ok(db.prepare_cached(sql)?.execute(params![&*key.server, &*key.id, token])? > 0)
}

/// Takes out ended tasks of a server that were stored before this moment; returns which.
pub(super) fn purge(db: &Connection, server: &str, before: i64) -> Result<Vec<TaskKey>> {
    let sql = "DELETE FROM task WHERE reason IS NOT NULL AND server = ?1 AND stored < ?2 RETURNING server, id";
    db.prepare_cached(sql)?.query_map(params![server, before], key)?.collect()
}

fn key(row: &Row<'_>) -> Result<TaskKey> {
    Ok(TaskKey { server: row.get::<_, String>(0)?.into(), id: row.get::<_, String>(1)?.into() })
}

/// Keeps the bounds: no end from before this moment, and not more than so many; acknowledged ones go first. Returns
/// what went.
pub(super) fn keep_bounds(db: &Connection, before: i64, most: usize) -> Result<Vec<TaskKey>> {
    let sql = "DELETE FROM task WHERE reason IS NOT NULL AND stored < ?1 RETURNING server, id";
    let mut gone: Vec<TaskKey> = db.prepare_cached(sql)?.query_map([before], key)?.collect::<Result<_>>()?;
    let count: i64 =
        db.prepare_cached("SELECT count(*) FROM task WHERE reason IS NOT NULL")?.query_row([], |row| row.get(0))?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    if count > most {
        let sql = "DELETE FROM task WHERE n IN (SELECT n FROM task WHERE reason IS NOT NULL \
             ORDER BY acknowledged DESC, stored LIMIT ?1) RETURNING server, id";
        for found in db.prepare_cached(sql)?.query_map([count - most], key)? {
            gone.push(found?);
        }
    }
    Ok(gone)
}

/// The token of a task as the file has it.
pub(super) fn token_of(db: &Connection, key: &TaskKey) -> Result<Option<i64>> {
    let sql = "SELECT token FROM task WHERE server = ?1 AND id = ?2";
    db.prepare_cached(sql)?.query_row([&*key.server, &*key.id], |row| row.get(0)).optional()
}

fn read(row: &Row<'_>) -> Result<(Record, i64)> {
    let damaged = |column: usize| {
        move |fault: crate::error::Error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(fault))
    };
    let server: Arc<str> = row.get::<_, String>("server")?.into();
    let about = TaskAbout {
        server: server.clone(),
        tool: row.get("tool")?,
        tool_call_id: row.get("tool_call_id")?,
        host: row.get::<_, Option<String>>("context")?.map(Json::trusted),
        arguments_digest: row.get("arguments_digest")?,
        keep_result: row.get("keep_result")?,
    };
    let (last, raw): (Option<String>, Option<String>) = (row.get("last")?, row.get("raw")?);
    let last = last.map(|text| read_task(&text, raw.as_deref())).transpose().map_err(damaged(9))?;
    let record = Record {
        key: TaskKey { server, id: row.get::<_, String>("id")?.into() },
        about: Arc::new(about),
        received: wall_of(row.get("received")?),
        stored: wall_of(row.get("stored")?),
        last: last.map(Arc::new),
        answers: read_answers(&row.get::<_, String>("answers")?).map_err(damaged(11))?,
        cancel_pending: row.get("cancel_pending")?,
        end: row.get::<_, Option<i64>>("reason")?.and_then(reason_of),
        acknowledged: row.get("acknowledged")?,
    };
    Ok((record, row.get("token")?))
}
