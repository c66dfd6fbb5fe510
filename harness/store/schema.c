/*
 * The schema, version 1. What each table is for and why it is cut so is told
 * in docs/database.md. STRICT throughout: a text in a column of numbers is an
 * error and not a surprise for next year's query.
 */
#include "store/db.h"

const char store_schema_sql[] =
"CREATE TABLE migration(version INTEGER PRIMARY KEY, applied_us INTEGER NOT NULL, tool TEXT NOT NULL) STRICT;\n"

"CREATE TABLE env(\n"                           /* fingerprint of a machine at one moment */
"  env_id INTEGER PRIMARY KEY,\n"
"  hash TEXT NOT NULL UNIQUE,\n"                /* of every field */
"  class TEXT NOT NULL,\n"                      /* of the fields that decide comparability */
"  host TEXT NOT NULL, cpu TEXT, gpu TEXT, gpu_n INTEGER NOT NULL DEFAULT 0, gpu_mem INTEGER,\n"
"  driver TEXT, cuda TEXT, kernel TEXT,\n"
"  json TEXT NOT NULL CHECK(json_valid(json))) STRICT;\n"
"CREATE INDEX env_class ON env(class);\n"

"CREATE TABLE build(\n"
"  build_id INTEGER PRIMARY KEY,\n"
"  commit_sha TEXT NOT NULL, dirty INTEGER NOT NULL CHECK(dirty IN (0,1)),\n"
"  branch TEXT, commit_us INTEGER, compiler TEXT, flags TEXT, binary_sha TEXT NOT NULL,\n"
"  UNIQUE(commit_sha, binary_sha)) STRICT;\n"

"CREATE TABLE config(\n"
"  config_id INTEGER PRIMARY KEY,\n"
"  hash TEXT NOT NULL UNIQUE,\n"                /* SHA-256 of canonical JSON of the resolved parameters */
"  label TEXT NOT NULL, workload TEXT NOT NULL,\n"
"  params TEXT NOT NULL CHECK(json_valid(params)),\n"
"  batch      INTEGER GENERATED ALWAYS AS (params->>'$.batch') VIRTUAL,\n"
"  precision  TEXT    GENERATED ALWAYS AS (params->>'$.precision') VIRTUAL,\n"
"  allocator  TEXT    GENERATED ALWAYS AS (params->>'$.allocator') VIRTUAL,\n"
"  checkpoint TEXT    GENERATED ALWAYS AS (params->>'$.checkpoint') VIRTUAL) STRICT;\n"
"CREATE INDEX config_label ON config(label);\n"

"CREATE TABLE metric(\n"
"  metric_id INTEGER PRIMARY KEY,\n"
"  name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL,\n"
"  better TEXT NOT NULL CHECK(better IN ('lower','higher','none')),\n"
"  exact INTEGER NOT NULL DEFAULT 0 CHECK(exact IN (0,1))) STRICT;\n"

"CREATE TABLE sweep(\n"
"  sweep_id INTEGER PRIMARY KEY,\n"
"  uuid TEXT NOT NULL UNIQUE,\n"                /* also the idempotency key of an import */
"  kind TEXT NOT NULL CHECK(kind IN ('run','plan','nightly','tune','confirm','replay','import')),\n"
"  suite TEXT NOT NULL, spec_sha TEXT NOT NULL, spec TEXT NOT NULL, seed INTEGER NOT NULL,\n"
"  env_id INTEGER NOT NULL REFERENCES env, build_id INTEGER NOT NULL REFERENCES build,\n"
"  tool TEXT NOT NULL, started_us INTEGER NOT NULL, ended_us INTEGER,\n"
"  state TEXT NOT NULL CHECK(state IN ('open','done','interrupted','failed')),\n"
"  owner TEXT NOT NULL,\n"                      /* host, boot id, pid, process start time */
"  beat_us INTEGER NOT NULL) STRICT;\n"
"CREATE INDEX sweep_time ON sweep(kind, started_us);\n"

"CREATE TABLE run(\n"                           /* one child process */
"  run_id INTEGER PRIMARY KEY,\n"
"  sweep_id INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE,\n"
"  config_id INTEGER NOT NULL REFERENCES config,\n"
"  rep INTEGER NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, ord INTEGER NOT NULL,\n"
"  status TEXT NOT NULL CHECK(status IN ('pending','running','ok','oom','timeout','crash',\n"
"                                        'invalid','skipped','interrupted')),\n"
"  oom TEXT CHECK(oom IN ('device','host','cap')),\n"
"  device TEXT,\n"                              /* card UUID or cpu */
"  cause TEXT,\n"                               /* library, launch, suspected, spill, ... beside the status */
"  exit_code INTEGER, signal INTEGER, reason TEXT, log TEXT,\n"
"  started_us INTEGER, ended_us INTEGER,\n"
"  flags INTEGER NOT NULL DEFAULT 0,\n"         /* throttled, busy, unsteady, drift, leak, ... */
"  CHECK((status = 'oom') = (oom IS NOT NULL)),\n"
"  UNIQUE(sweep_id, config_id, rep, attempt)) STRICT;\n"
"CREATE INDEX run_todo ON run(sweep_id, ord) WHERE status IN ('pending','running');\n"
"CREATE INDEX run_config ON run(config_id, sweep_id);\n"

"CREATE TABLE value(\n"                         /* long form: one number per run and metric */
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,\n"
"  metric_id INTEGER NOT NULL REFERENCES metric,\n"
"  v REAL NOT NULL CHECK(v BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308),\n"
"  n INTEGER NOT NULL DEFAULT 1, mad REAL,\n"
"  PRIMARY KEY(run_id, metric_id)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE series(\n"                        /* raw samples, one blob per run and metric */
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,\n"
"  metric_id INTEGER NOT NULL REFERENCES metric,\n"
"  codec TEXT NOT NULL CHECK(codec IN ('f64le','i64le')),\n"
"  n INTEGER NOT NULL, t0_us INTEGER, dt_us INTEGER, t BLOB,\n"
"  data BLOB NOT NULL,\n"
"  PRIMARY KEY(run_id, metric_id)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE op(\n"                            /* per operator and run */
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, name TEXT NOT NULL, phase TEXT NOT NULL,\n"
"  calls INTEGER NOT NULL, time_us REAL, bytes_at_peak INTEGER, bytes_max INTEGER, flops REAL,\n"
"  PRIMARY KEY(run_id, name, phase)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE event(\n"                         /* what a person wants to read */
"  run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, t_us INTEGER NOT NULL, kind TEXT NOT NULL,\n"
"  json TEXT NOT NULL CHECK(json_valid(json))) STRICT;\n"
"CREATE INDEX event_run ON event(run_id, t_us);\n"

"CREATE TABLE point(\n"                         /* one row per config, metric, sweep: what history reads */
"  config_id INTEGER NOT NULL REFERENCES config,\n"
"  metric_id INTEGER NOT NULL REFERENCES metric,\n"
"  sweep_id INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE,\n"
"  n INTEGER NOT NULL CHECK(n > 0), n_bad INTEGER NOT NULL DEFAULT 0,\n"
"  median REAL NOT NULL, mad REAL NOT NULL, lo REAL NOT NULL, hi REAL NOT NULL,\n"
"  flags INTEGER NOT NULL DEFAULT 0,\n"
"  PRIMARY KEY(config_id, metric_id, sweep_id)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE baseline(\n"
"  name TEXT NOT NULL, config_id INTEGER NOT NULL REFERENCES config, class TEXT NOT NULL,\n"
"  sweep_id INTEGER NOT NULL REFERENCES sweep,\n"
"  set_us INTEGER NOT NULL, set_by TEXT NOT NULL, reason TEXT NOT NULL,\n"
"  PRIMARY KEY(name, config_id, class)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE verdict(\n"
"  sweep_id INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE,\n"
"  config_id INTEGER NOT NULL REFERENCES config, metric_id INTEGER NOT NULL REFERENCES metric,\n"
"  baseline TEXT NOT NULL,\n"
"  verdict TEXT NOT NULL CHECK(verdict IN ('pass','improved','regressed','noisy','few','new',\n"
"                                          'missing','incomparable')),\n"
"  base REAL, cand REAL, shift REAL, lo REAL, hi REAL, threshold REAL, floor REAL,\n"
"  confirm_sweep INTEGER REFERENCES sweep, why TEXT NOT NULL,\n"
"  PRIMARY KEY(sweep_id, config_id, metric_id, baseline)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE changepoint(\n"
"  config_id INTEGER NOT NULL REFERENCES config, metric_id INTEGER NOT NULL REFERENCES metric,\n"
"  class TEXT NOT NULL, sweep_id INTEGER NOT NULL REFERENCES sweep,\n"     /* first sweep after */
"  before REAL NOT NULL, after REAL NOT NULL, p REAL NOT NULL,\n"
"  state TEXT NOT NULL DEFAULT 'open' CHECK(state IN ('open','accepted','ignored')), note TEXT,\n"
"  PRIMARY KEY(config_id, metric_id, class, sweep_id)) STRICT, WITHOUT ROWID;\n"

"CREATE TABLE trial(\n"                         /* tuner */
"  trial_id INTEGER PRIMARY KEY, sweep_id INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE,\n"
"  number INTEGER NOT NULL, config_id INTEGER NOT NULL REFERENCES config, rung INTEGER NOT NULL,\n"
"  state TEXT NOT NULL CHECK(state IN ('queued','running','ok','infeasible','dominated','pruned','failed')),\n"
"  objective REAL, peak INTEGER, predicted_peak INTEGER, why TEXT,\n"
"  UNIQUE(sweep_id, number), UNIQUE(sweep_id, config_id, rung)) STRICT;\n"

"CREATE VIEW history AS\n"
"SELECT c.label, c.workload, c.batch, c.precision, c.allocator, c.checkpoint,\n"
"       m.name AS metric, m.unit, m.better, s.kind, s.suite,\n"
"       date(s.started_us/1000000,'unixepoch') AS night, s.started_us,\n"
"       p.median, p.mad, p.lo, p.hi, p.n, p.n_bad, p.flags,\n"
"       e.class, e.host, e.driver, b.commit_sha, b.dirty, p.sweep_id, p.config_id, p.metric_id\n"
"FROM config c JOIN point p USING(config_id) JOIN metric m USING(metric_id)\n"
"     JOIN sweep s USING(sweep_id) JOIN env e USING(env_id) JOIN build b USING(build_id);\n"

"CREATE VIEW wide AS\n"                         /* one row per run, for spreadsheets */
"SELECT r.run_id, r.sweep_id, c.label, r.rep, r.status, r.flags,\n"
"       max(v) FILTER (WHERE m.name='mem.reserved.peak') AS peak_bytes,\n"
"       max(v) FILTER (WHERE m.name='throughput.tokens') AS tokens_s,\n"
"       max(v) FILTER (WHERE m.name='step.median')       AS step_s,\n"
"       max(v) FILTER (WHERE m.name='util.sm')           AS util_sm\n"
"FROM run r JOIN config c USING(config_id) LEFT JOIN value USING(run_id) LEFT JOIN metric m USING(metric_id)\n"
"GROUP BY r.run_id;\n"

"CREATE VIEW outcome AS\n"                      /* OOM and crashes over time are a result too */
"SELECT s.started_us, date(s.started_us/1000000,'unixepoch') AS night, c.label,\n"
"       count(*) FILTER (WHERE r.status='ok') AS ok, count(*) FILTER (WHERE r.status='oom') AS oom,\n"
"       count(*) FILTER (WHERE r.status='timeout') AS timeout, count(*) FILTER (WHERE r.status='crash') AS crash,\n"
"       count(*) FILTER (WHERE r.status IN ('invalid','skipped','interrupted')) AS other\n"
"FROM run r JOIN sweep s USING(sweep_id) JOIN config c USING(config_id)\n"
"GROUP BY s.sweep_id, r.config_id;\n";
