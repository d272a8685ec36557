# SPDX-License-Identifier: Apache-2.0
# Makes nsys.sqlite, rpd.rpd, rocpd3.db and rocpd4.db: two steps of a made-up program on one device,
# as Nsight Systems, rpd_tracer and rocprofiler-sdk write them.
#
#   python3 make_databases.py
#
# Schemas: docs.nvidia.com/nsight-systems/UserGuide (SQLite schema reference),
# github.com/ROCm/rocmProfileData (rocpd_python/rocpd/schema_data),
# github.com/ROCm/rocm-systems (projects/rocprofiler-sdk, rocpd_tables.sql).
import os
import sqlite3

# (stream, begin, end, name): kernels of a step that begins at 0, us
KERNELS = [(7, 0, 40, "gemm_forward"), (7, 50, 120, "gemm_backward"),
           (20, 45, 90, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
           (20, 130, 180, "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE"),
           (7, 190, 200, "adam")]
COPIES = [(9, 5, 25, 1 << 20)]
STEP = 1000


def database(name):
    if os.path.exists(name):
        os.remove(name)
    connection = sqlite3.connect(name)
    connection.execute("PRAGMA page_size = 1024")
    return connection


class Strings:
    def __init__(self):
        self.ids = {}

    def id(self, text):
        return self.ids.setdefault(text, len(self.ids) + 1)


def nsys():
    db, strings = database("nsys.sqlite"), Strings()
    pid = 0x1000000001000000 + (1234 << 24)
    db.executescript("""
      CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
      CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER);
      CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
      CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT NOT NULL,
        name TEXT NOT NULL, nameEnum INTEGER NOT NULL, value TEXT NOT NULL);
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, gridX INTEGER);
      CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL);
      CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
        eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL);
      CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
        text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
      CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER,
        deviceId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER,
        memoryOperationType INTEGER);
      CREATE VIEW bad AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)
        SELECT n FROM r;
    """)
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 85899345920, 132)")
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '')")
    db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, '', 'Hostname', 0, 'node7')")
    for step in range(2):
        at = (10_000 + step * STEP) * 1000
        for stream, begin, end, name in KERNELS:
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,?,0,?,?,?,1)",
                       (at + begin * 1000, at + end * 1000, stream, pid, strings.id("void " + name),
                        strings.id(name)))
        for stream, begin, end, size in COPIES:
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,0,1,?,0,?,?,1)",
                       (at + begin * 1000, at + end * 1000, stream, pid, size))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?,NULL,0)",
                   (at - 5000, at + 900_000, f"step {step}", pid + 77))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,?,?,0)",
                   (at - 4000, at + 50_000, pid + 77, strings.id("forward")))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?,NULL,34,'a mark',?,NULL,0)", (at, pid + 77))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,0,?)",
                   (at + 100_000, at + 200_000, pid + 77,
                    strings.id("cudaStreamSynchronize_v3020")))
    for time, size, kind in [(1, 1 << 30, 0), (2, 1 << 20, 0), (3, 1 << 20, 1)]:
        db.execute("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?,?,0,4096,?,2,?)",
                   (time * 1000, pid, size, kind))
    db.executemany("INSERT INTO StringIds VALUES (?,?)",
                   [(number, text) for text, number in strings.ids.items()])
    db.commit()


def rpd():
    db, strings = database("rpd.rpd"), Strings()
    db.executescript("""
      CREATE TABLE rocpd_metadata (id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
        tag varchar(4096) NOT NULL, value varchar(4096) NOT NULL);
      CREATE TABLE rocpd_string (id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
        string varchar(4096) NOT NULL);
      CREATE TABLE rocpd_ustring (id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
        string varchar(4096) NOT NULL);
      CREATE TABLE rocpd_api (id integer NOT NULL PRIMARY KEY AUTOINCREMENT, pid integer NOT NULL,
        tid integer NOT NULL, start integer NOT NULL, end integer NOT NULL,
        apiName_id bigint NOT NULL, category_id bigint NOT NULL, domain_id bigint NOT NULL,
        args_id bigint NOT NULL);
      CREATE TABLE rocpd_copyapi (api_ptr_id bigint NOT NULL PRIMARY KEY, stream varchar(18),
        size integer NOT NULL, kind integer NOT NULL);
      CREATE TABLE rocpd_op (id integer NOT NULL PRIMARY KEY AUTOINCREMENT, gpuId integer NOT NULL,
        queueId integer NOT NULL, sequenceId integer NOT NULL, start integer NOT NULL,
        end integer NOT NULL, description_id bigint NOT NULL, opType_id bigint NOT NULL);
      CREATE TABLE rocpd_api_ops (id integer NOT NULL PRIMARY KEY AUTOINCREMENT,
        api_id bigint NOT NULL, op_id bigint NOT NULL);
      CREATE VIEW op AS SELECT rocpd_op.id, start, end FROM rocpd_op;
    """)
    op = api = 0
    for step in range(2):
        at = (10_000 + step * STEP) * 1000
        for stream, begin, end, name in KERNELS:
            op += 1
            db.execute("INSERT INTO rocpd_op VALUES (?,2,?,0,?,?,?,?)",
                       (op, stream, at + begin * 1000, at + end * 1000, strings.id(name),
                        strings.id("KernelExecution")))
        for stream, begin, end, size in COPIES:
            op, api = op + 1, api + 1
            db.execute("INSERT INTO rocpd_op VALUES (?,2,?,0,?,?,?,?)",
                       (op, stream, at + begin * 1000, at + end * 1000, strings.id(""),
                        strings.id("CopyHostToDevice")))
            db.execute("INSERT INTO rocpd_api VALUES (?,5,6,?,?,?,1,1,1)",
                       (api, at, at + 1000, strings.id("hipMemcpyAsync")))
            db.execute("INSERT INTO rocpd_copyapi VALUES (?,'0x0',?,1)", (api, size))
            db.execute("INSERT INTO rocpd_api_ops(api_id, op_id) VALUES (?,?)", (api, op))
        db.execute("INSERT INTO rocpd_ustring VALUES (?,?)", (step + 1, f"step {step}"))
        api += 1
        db.execute("INSERT INTO rocpd_api VALUES (?,5,6,?,?,?,1,1,?)",
                   (api, at - 5000, at + 900_000, strings.id("UserMarker"), step + 1))
        api += 1
        db.execute("INSERT INTO rocpd_api VALUES (?,5,6,?,?,?,1,1,0)",
                   (api, at + 100_000, at + 200_000, strings.id("hipDeviceSynchronize")))
    db.executemany("INSERT INTO rocpd_string VALUES (?,?)",
                   [(number, text) for text, number in strings.ids.items()])
    db.commit()


ROCPD_COMMON = """
  CREATE TABLE "rocpd_metadata{u}" (id INTEGER NOT NULL PRIMARY KEY, tag TEXT, value TEXT);
  CREATE TABLE "rocpd_string{u}" (id INTEGER NOT NULL PRIMARY KEY, guid TEXT, string TEXT);
  CREATE TABLE "rocpd_info_agent{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER, pid INTEGER,
    type TEXT, absolute_index INTEGER, name TEXT);
  CREATE TABLE "rocpd_info_kernel_symbol{u}" (id INTEGER NOT NULL PRIMARY KEY, kernel_name TEXT,
    display_name TEXT);
  CREATE TABLE "rocpd_event{u}" (id INTEGER NOT NULL PRIMARY KEY, category_id INTEGER);
  CREATE VIEW rocpd_string AS SELECT * FROM "rocpd_string{u}";
  CREATE VIEW kernels AS SELECT * FROM rocpd_kernel_dispatch;
"""
ROCPD_3 = """
  CREATE TABLE "rocpd_kernel_dispatch{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER,
    pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER,
    queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER);
  CREATE TABLE "rocpd_memory_copy{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER,
    src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
  CREATE TABLE "rocpd_memory_allocate{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER,
    pid INTEGER, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, start BIGINT, "end" BIGINT,
    address INTEGER, size INTEGER);
  CREATE TABLE "rocpd_region{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
"""
ROCPD_4 = """
  CREATE TABLE "rocpd_track{u}" (id INTEGER NOT NULL PRIMARY KEY, nid INTEGER, pid INTEGER,
    tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER);
  CREATE TABLE "rocpd_timestamp{u}" (id INTEGER NOT NULL PRIMARY KEY, value BIGINT,
    track_id INTEGER);
  CREATE TABLE "rocpd_kernel_dispatch{u}" (id INTEGER NOT NULL PRIMARY KEY, track_id INTEGER,
    kernel_id INTEGER, dispatch_id INTEGER, start_id INTEGER, end_id INTEGER, event_id INTEGER);
"""


def rocpd(version):
    db, strings, symbols = database(f"rocpd{version}.db"), Strings(), Strings()
    uuid = "_00001c92_7c2e_7d3a_9c51_f1b2c3d4e5f6"
    db.executescript((ROCPD_COMMON + (ROCPD_3 if version == 3 else ROCPD_4)).replace("{u}", uuid))

    def insert(table, *values):
        marks = ",".join("?" * len(values))
        db.execute(f'INSERT INTO "rocpd_{table}{uuid}" VALUES ({marks})', values)

    insert("info_agent", 1, 1, 1, "CPU", 0, "EPYC")
    insert("info_agent", 2, 1, 1, "GPU", 1, "gfx942")
    marker, row = strings.id("MARKER_CORE_RANGE_API"), 0
    insert("event", 1, marker)
    insert("event", 2, strings.id("HIP_RUNTIME_API_EXT"))
    for step in range(2):
        at = (10_000 + step * STEP) * 1000
        for stream, begin, end, name in KERNELS:
            row += 1
            begin, end = at + begin * 1000, at + end * 1000
            if version == 3:
                insert("kernel_dispatch", row, 1, 1, 1, 2, symbols.id(name), row, 1, stream, begin,
                       end, 0)
                continue
            db.execute(f'INSERT OR IGNORE INTO "rocpd_track{uuid}" VALUES (?,1,1,1,2,1,?)',
                       (stream, stream))
            insert("timestamp", 2 * row, begin, stream)
            insert("timestamp", 2 * row + 1, end, stream)
            insert("kernel_dispatch", row, stream, symbols.id(name), row, 2 * row, 2 * row + 1, 0)
        if version == 4:
            continue
        for stream, begin, end, size in COPIES:
            insert("memory_copy", step + 1, 1, 1, 1, at + begin * 1000, at + end * 1000,
                   strings.id("MEMORY_COPY_HOST_TO_DEVICE"), 2, 1, size, 1, stream, 0)
        insert("region", 2 * step + 1, 1, 1, 1, at - 5000, at + 900_000,
               strings.id(f"step {step}"), 1)
        insert("region", 2 * step + 2, 1, 1, 1, at + 100_000, at + 200_000,
               strings.id("hipStreamSynchronize"), 2)
    if version == 3:
        insert("memory_allocate", 1, 1, 1, 1, 2, "ALLOC", "REAL", 1000, 1100, 4096, 1 << 30)
        insert("memory_allocate", 2, 1, 1, 1, 2, "ALLOC", "REAL", 2000, 2100, 8192, 1 << 20)
        insert("memory_allocate", 3, 1, 1, 1, None, "FREE", "REAL", 3000, 3100, 8192, 0)
    for text, number in strings.ids.items():
        insert("string", number, "", text)
    for text, number in symbols.ids.items():
        insert("info_kernel_symbol", number, text, text)
    db.commit()


nsys()
rpd()
rocpd(3)
rocpd(4)
