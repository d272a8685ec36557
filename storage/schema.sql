-- SPDX-License-Identifier: Apache-2.0
-- The schema of a trace file; docs/trace-format.md explains it.
-- Times are ns since the run's start, sizes are bytes. Columns that hold an enumerator refer to a
-- table of names (op_kind, phase, ...); columns that hold text often repeated refer to `string`.
-- The views with the suffix _view show the same rows with text in place of those numbers.

PRAGMA application_id = 0x54535241;  -- "TSRA": this SQLite file is a Tessera trace
PRAGMA user_version = 3;             -- the version of this format

CREATE TABLE meta (
  key TEXT PRIMARY KEY,  -- seed, options, version, steps, end, content_hash, perhaps sources
  value TEXT NOT NULL    -- numbers in decimal, content_hash in hexadecimal, options as JSON
) WITHOUT ROWID;

CREATE TABLE run (
  name TEXT NOT NULL,                  -- title
  model TEXT NOT NULL,                 -- model name
  scheme TEXT NOT NULL,                -- sharding scheme, "fully_shard"
  cluster TEXT NOT NULL,               -- cluster name, or the host's name for a real run
  carrier TEXT NOT NULL,               -- the backend: "simulator", "local", "mpi", "nccl"
  ranks INTEGER NOT NULL,              -- size of the run (ranks)
  ranks_per_node INTEGER NOT NULL,     -- size of a node (ranks)
  parameters INTEGER NOT NULL,         -- unique parameters of the model (elements)
  tokens_per_step INTEGER NOT NULL,    -- of all ranks and micro-batches, 0: unknown (tokens)
  model_flops_per_step REAL NOT NULL,  -- of all ranks without recomputation, 0: unknown (FLOP)
  peak_flops_per_rank REAL NOT NULL,   -- what MFU refers to, 0: unknown (FLOP/s)
  peak_name TEXT NOT NULL,             -- what peak_flops_per_rank is
  memory_per_rank INTEGER NOT NULL     -- device capacity, 0: unknown (bytes)
);

CREATE TABLE rank (
  rank INTEGER PRIMARY KEY,  -- global rank number
  node INTEGER NOT NULL,     -- index of its node: rank / ranks_per_node
  recorded INTEGER NOT NULL  -- 1: has spans and memory samples, 0: only rank_step
);

CREATE TABLE stream (
  id INTEGER PRIMARY KEY,  -- what op.stream refers to
  name TEXT NOT NULL,      -- title of the lane
  role INTEGER NOT NULL    -- stream_role.id: what it is used for
);

CREATE TABLE communicator (
  id INTEGER PRIMARY KEY,       -- what op.communicator refers to
  name TEXT NOT NULL,           -- mesh axis
  group_size INTEGER NOT NULL,  -- of one group (ranks)
  group_count INTEGER NOT NULL  -- number of groups
);

CREATE TABLE unit (
  id INTEGER PRIMARY KEY,       -- ascending in order of declaration
  name TEXT NOT NULL,           -- what op_view.unit shows
  parameters INTEGER NOT NULL,  -- number of parameter tensors
  numel INTEGER NOT NULL,       -- unsharded, without padding (elements)
  padding INTEGER NOT NULL      -- added so that shards are equal (elements)
);

CREATE TABLE string (
  id INTEGER PRIMARY KEY,  -- 0 is the empty text
  text TEXT NOT NULL       -- in order of first use
);

CREATE TABLE op (
  id INTEGER PRIMARY KEY,         -- ascending; also the id of the event recorded after it
  kind INTEGER NOT NULL,          -- op_kind.id
  stream INTEGER NOT NULL,        -- stream.id
  communicator INTEGER NOT NULL,  -- communicator.id, -1: not a collective
  step INTEGER NOT NULL,          -- training step
  micro_batch INTEGER NOT NULL,   -- micro-batch of the step
  phase INTEGER NOT NULL,         -- phase.id
  reason INTEGER NOT NULL,        -- reason.id: why it was issued now
  unit INTEGER NOT NULL,          -- string.id of the sharding unit
  module INTEGER NOT NULL,        -- string.id of the module path
  label INTEGER NOT NULL,         -- string.id of the text for a bar
  bytes INTEGER NOT NULL,         -- full buffer of a collective, or copied, or moved (bytes)
  dtype INTEGER NOT NULL,         -- dtype.id
  flops REAL NOT NULL,            -- of one rank, compute only (FLOP)
  algorithm INTEGER NOT NULL      -- string.id of the collective's algorithm
);

CREATE TABLE op_after (
  op INTEGER NOT NULL,     -- op.id
  after INTEGER NOT NULL,  -- op.id of what it waited for besides its own stream
  PRIMARY KEY (op, after)
) WITHOUT ROWID;

CREATE TABLE op_kernel (
  op INTEGER NOT NULL,    -- op.id, a collective
  rank INTEGER NOT NULL,  -- rank.rank
  time INTEGER NOT NULL,  -- from the first start of its kernels on the device to the last end (ns)
  PRIMARY KEY (op, rank)
) WITHOUT ROWID;

CREATE TABLE buffer (
  id INTEGER PRIMARY KEY,         -- what memory samples refer to
  name INTEGER NOT NULL,          -- string.id
  unit INTEGER NOT NULL,          -- string.id of the sharding unit
  memory_class INTEGER NOT NULL,  -- memory_class.id
  bytes INTEGER NOT NULL          -- size on one rank (bytes)
);

CREATE TABLE rank_step_chunk (
  step INTEGER NOT NULL,      -- training step, from 0 without gaps
  rank INTEGER NOT NULL,      -- rank.rank of the first one in it
  count INTEGER NOT NULL,     -- in it, 1 to 4096 (ranks)
  t0 INTEGER NOT NULL,        -- the earliest begin in it (ns)
  t1 INTEGER NOT NULL,        -- the latest end in it (ns)
  checksum INTEGER NOT NULL,  -- of the columns above and data
  data BLOB NOT NULL,         -- packed columns of rank_step
  PRIMARY KEY (step, rank)
) WITHOUT ROWID;

CREATE TABLE peak_memory (
  id INTEGER PRIMARY KEY,       -- in order of arrival, from 1
  step INTEGER NOT NULL,        -- training step
  first_rank INTEGER NOT NULL,  -- the ranks [first_rank, end_rank) behave alike
  end_rank INTEGER NOT NULL,    -- one past the last of them
  allocated INTEGER NOT NULL,   -- the step's highest (bytes)
  reserved INTEGER NOT NULL     -- held from the device at that moment (bytes)
);

CREATE TABLE peak_memory_class (
  peak INTEGER NOT NULL,          -- peak_memory.id
  memory_class INTEGER NOT NULL,  -- memory_class.id
  bytes INTEGER NOT NULL,         -- of the class at that moment; no row: 0 (bytes)
  PRIMARY KEY (peak, memory_class)
) WITHOUT ROWID;

CREATE TABLE diagnostic (
  id INTEGER PRIMARY KEY,     -- in order of arrival, from 1
  severity INTEGER NOT NULL,  -- severity.id
  code TEXT NOT NULL,         -- "out_of_memory", "hazard", ...
  rank INTEGER NOT NULL,      -- first rank concerned, -1: all
  op INTEGER NOT NULL,        -- op.id concerned, -1: none
  time INTEGER NOT NULL,      -- when (ns)
  message TEXT NOT NULL       -- one sentence
);

CREATE TABLE memory_shortage (
  id INTEGER PRIMARY KEY,        -- in order of arrival, from 1
  rank INTEGER NOT NULL,         -- rank.rank
  time INTEGER NOT NULL,         -- when (ns)
  buffer INTEGER NOT NULL,       -- buffer.id of what was asked for
  request INTEGER NOT NULL,      -- its size (bytes)
  capacity INTEGER NOT NULL,     -- what may be taken from the device (bytes)
  free INTEGER NOT NULL,         -- of the capacity, what nobody held (bytes)
  largest_free INTEGER NOT NULL  -- the largest block that the request could have had (bytes)
);

CREATE TABLE memory_block (
  shortage INTEGER NOT NULL,  -- memory_shortage.id
  address INTEGER NOT NULL,   -- from the start of the allocator's range (bytes)
  bytes INTEGER NOT NULL,     -- its size (bytes)
  segment INTEGER NOT NULL,   -- address of what it was cut from; blocks of two never join (bytes)
  stream INTEGER NOT NULL,    -- stream.id whose requests it serves, -1: any
  buffer INTEGER NOT NULL,    -- buffer.id of what lies there, -1: it is free
  PRIMARY KEY (shortage, address)
) WITHOUT ROWID;

CREATE TABLE step_summary (
  step INTEGER PRIMARY KEY,         -- training step
  begin INTEGER NOT NULL,           -- the first rank's (ns)
  end INTEGER NOT NULL,             -- the last rank's (ns)
  shortest INTEGER NOT NULL,        -- end - begin of the fastest rank (ns)
  median INTEGER NOT NULL,          -- of the ranks (ns)
  longest INTEGER NOT NULL,         -- of the slowest rank (ns)
  slowest INTEGER NOT NULL,         -- rank.rank, the first of equals
  peak_allocated INTEGER NOT NULL,  -- the highest of a rank (bytes)
  peak_reserved INTEGER NOT NULL    -- the highest of a rank (bytes)
);

CREATE TABLE rank_summary (
  rank INTEGER PRIMARY KEY,         -- rank.rank
  steps INTEGER NOT NULL,           -- those that take time; the columns of times are sums of them
  time INTEGER NOT NULL,            -- end - begin (ns)
  compute INTEGER NOT NULL,         -- as in rank_step (ns)
  communication INTEGER NOT NULL,   -- as in rank_step (ns)
  exposed INTEGER NOT NULL,         -- as in rank_step (ns)
  blocking INTEGER NOT NULL,        -- as in rank_step (ns)
  wait INTEGER NOT NULL,            -- as in rank_step (ns)
  peak_allocated INTEGER NOT NULL,  -- the highest of a step (bytes)
  peak_reserved INTEGER NOT NULL    -- the highest of a step (bytes)
);

CREATE TABLE span_chunk (
  rank INTEGER NOT NULL,      -- rank.rank
  stream INTEGER NOT NULL,    -- -3: all streams of the rank; versions 1 and 2: stream.id
  seq INTEGER NOT NULL,       -- 0, 1, ... within (rank, stream)
  count INTEGER NOT NULL,     -- spans in it, 1 to 16384
  t0 INTEGER NOT NULL,        -- the earliest begin in it (ns)
  t1 INTEGER NOT NULL,        -- the latest end in it (ns)
  checksum INTEGER NOT NULL,  -- of the columns above and data
  data BLOB NOT NULL,         -- packed columns of spans
  PRIMARY KEY (rank, stream, seq)
) WITHOUT ROWID;

CREATE TABLE memory_chunk (
  rank INTEGER NOT NULL,      -- rank.rank
  seq INTEGER NOT NULL,       -- 0, 1, ... within the rank, ascending in time
  count INTEGER NOT NULL,     -- samples in it, 1 to 16384
  t0 INTEGER NOT NULL,        -- the earliest time in it (ns)
  t1 INTEGER NOT NULL,        -- the latest time in it (ns)
  checksum INTEGER NOT NULL,  -- of the columns above and data
  data BLOB NOT NULL,         -- packed columns from edge to reserved
  PRIMARY KEY (rank, seq)
) WITHOUT ROWID;

-- The names of enumerators. Rows are appended, never renumbered.
CREATE TABLE op_kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE phase (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE reason (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE dtype (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE memory_class (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE stream_role (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE severity (id INTEGER PRIMARY KEY, name TEXT NOT NULL);

INSERT INTO op_kind VALUES
  (0, 'all_gather'), (1, 'reduce_scatter'), (2, 'all_reduce'), (3, 'reduce'), (4, 'broadcast'),
  (5, 'copy'), (6, 'compute'), (7, 'wait'), (8, 'mark'),
  (9, 'all_to_all');
INSERT INTO phase VALUES (0, ''), (1, 'init'), (2, 'forward'), (3, 'backward'), (4, 'optimizer');
INSERT INTO reason VALUES
  (0, ''), (1, 'needed'), (2, 'forward_prefetch'), (3, 'backward_prefetch'), (4, 'copy_in'),
  (5, 'copy_out'), (6, 'reduce_gradients'), (7, 'accumulate'), (8, 'recompute'), (9, 'step'),
  (10, 'free_memory'), (11, 'order'),
  (12, 'divide'), (13, 'offload'), (14, 'limit'), (15, 'summon'), (16, 'clip'),
  (17, 'unscale');
INSERT INTO dtype VALUES
  (0, 'float32'), (1, 'bfloat16'), (2, 'float16'), (3, 'float64'), (4, 'int32'), (5, 'int64'),
  (6, 'uint8');
INSERT INTO memory_class VALUES
  (0, 'sharded parameters'), (1, 'unsharded parameters'), (2, 'sharded gradients'),
  (3, 'unsharded gradients'), (4, 'optimizer state'), (5, 'activations'), (6, 'temporary'),
  (7, 'all-gather buffers'), (8, 'reduce buffers'), (9, 'inputs'), (10, 'buffers'),
  (11, 'communication library'), (12, 'pinned host'), (13, 'NVMe staging'),
  (14, 'reserved, unused'),
  (15, 'not known');
INSERT INTO stream_role VALUES (0, 'compute'), (1, 'communication'), (2, 'copy'), (3, 'host');
INSERT INTO severity VALUES (0, 'info'), (1, 'warning'), (2, 'error'), (3, 'data_loss');

CREATE VIEW stream_view AS
  SELECT s.id, s.name, r.name AS role FROM stream s LEFT JOIN stream_role r ON r.id = s.role;

CREATE VIEW op_view AS
  SELECT op.id, k.name AS kind, s.name AS stream, c.name AS communicator, op.step, op.micro_batch,
         p.name AS phase, r.name AS reason, u.text AS unit, m.text AS module, l.text AS label,
         op.bytes, d.name AS dtype, op.flops, a.text AS algorithm
  FROM op
  LEFT JOIN op_kind k ON k.id = op.kind
  LEFT JOIN stream s ON s.id = op.stream
  LEFT JOIN communicator c ON c.id = op.communicator
  LEFT JOIN phase p ON p.id = op.phase
  LEFT JOIN reason r ON r.id = op.reason
  LEFT JOIN string u ON u.id = op.unit
  LEFT JOIN string m ON m.id = op.module
  LEFT JOIN string l ON l.id = op.label
  LEFT JOIN dtype d ON d.id = op.dtype
  LEFT JOIN string a ON a.id = op.algorithm;

CREATE VIEW buffer_view AS
  SELECT b.id, n.text AS name, u.text AS unit, c.name AS memory_class, b.bytes
  FROM buffer b
  LEFT JOIN string n ON n.id = b.name
  LEFT JOIN string u ON u.id = b.unit
  LEFT JOIN memory_class c ON c.id = b.memory_class;

CREATE VIEW peak_memory_view AS
  SELECT p.step, p.first_rank, p.end_rank, p.allocated, p.reserved, c.name AS memory_class, m.bytes
  FROM peak_memory p
  JOIN peak_memory_class m ON m.peak = p.id
  LEFT JOIN memory_class c ON c.id = m.memory_class;

CREATE VIEW diagnostic_view AS
  SELECT d.id, s.name AS severity, d.code, d.rank, d.op, d.time, d.message
  FROM diagnostic d LEFT JOIN severity s ON s.id = d.severity;
