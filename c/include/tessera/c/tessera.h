/* SPDX-License-Identifier: Apache-2.0
 *
 * Tessera from C: the engine shards parameters, gradients and optimizer state, the program
 * computes.
 *
 * The idea: a model is names, shapes and an order of modules. For every module of every pass the
 * engine gathers the parameters and calls the program with pointers to them and to the gradients.
 *
 *   tessera_model* model;
 *   tessera_runtime* runtime;
 *   tessera_engine* engine;
 *   if (tessera_model_from_json(text, &model) || tessera_runtime_create(NULL, &runtime) ||
 *       tessera_engine_create(runtime, model, "fully_shard", NULL, &engine) ||
 *       tessera_engine_initialise(engine, value, user) ||
 *       tessera_engine_step(engine, NULL, compute, user) || tessera_runtime_finish(runtime)) {
 *     fprintf(stderr, "%s\n", tessera_last_error());
 *   }
 *
 * Functions return 0 or a tessera_code; tessera_last_error() then has one sentence. A null handle
 * is TESSERA_INVALID_ARGUMENT, too; destroying null does nothing. Handles are used by one thread at
 * a time. After a failure of a runtime or engine they are only fit for being destroyed. Structs
 * begin with their size, so that later versions can add members at the end: set `struct_size =
 * sizeof(the struct)` and the others to zero for what is usual.
 */
#ifndef TESSERA_C_TESSERA_H
#define TESSERA_C_TESSERA_H

#include <stdint.h>

#if defined(__GNUC__)
#define TESSERA_C_API __attribute__((visibility("default")))
#else
#define TESSERA_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tessera_code {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 1,
  TESSERA_NOT_SUPPORTED = 2,
  TESSERA_OUT_OF_MEMORY = 3,
  TESSERA_COMMUNICATION_ERROR = 4, /* a rank is dead or gave up */
  TESSERA_TIMED_OUT = 5,           /* a rank is silent */
  TESSERA_IO_ERROR = 6,
  TESSERA_CORRUPT = 7,
  TESSERA_DIVERGENT = 8, /* ranks do different things */
  TESSERA_HAZARD = 9,
  TESSERA_CANCELLED = 10
} tessera_code;

typedef enum tessera_dtype {
  TESSERA_FLOAT32 = 0,
  TESSERA_BFLOAT16 = 1,
  TESSERA_FLOAT16 = 2
} tessera_dtype;

/* The sentence of this thread's last failure; valid until its next one. Never null. */
TESSERA_C_API const char* tessera_last_error(void);
/* "0.2.0" */
TESSERA_C_API const char* tessera_version(void);

/* ---- Models: immutable; may be destroyed as soon as engines were created from them. ---- */

typedef struct tessera_model tessera_model;

/* Reads a config.json as published on Hugging Face, or a module tree (docs/model-format.md). */
TESSERA_C_API int tessera_model_load(const char* path, tessera_model** model);
/* As tessera_model_load, from text: modules, names, shapes, order. */
TESSERA_C_API int tessera_model_from_json(const char* text, tessera_model** model);
TESSERA_C_API void tessera_model_destroy(tessera_model* model);
/* Parameters are numbered 0 ... count - 1, in the order of the modules. */
TESSERA_C_API int32_t tessera_model_parameter_count(const tessera_model* model);
/* Name and number of elements of a parameter; null and -1 if there is no such parameter. */
TESSERA_C_API const char* tessera_model_parameter_name(const tessera_model* model, int32_t number);
TESSERA_C_API int64_t tessera_model_parameter_numel(const tessera_model* model, int32_t number);
/* The dimensions of a parameter, as many as fit into `shape`; returns how many there are, or -1. */
TESSERA_C_API int32_t tessera_model_parameter_shape(const tessera_model* model, int32_t number,
                                                    int64_t* shape, int32_t capacity);

/* ---- Runtimes: they carry out what the engine decides. ---- */

typedef enum tessera_runtime_kind {
  TESSERA_LOCAL = 0,    /* one rank, in this process */
  TESSERA_MPI = 1,      /* this process's rank of the world that mpirun or srun started */
  TESSERA_SIMULATOR = 2 /* `ranks` ranks in this process, with real numbers and virtual time */
} tessera_runtime_kind;

typedef struct tessera_runtime_options {
  uint32_t struct_size;
  int32_t kind;            /* a tessera_runtime_kind */
  int32_t ranks;           /* of the simulator, at most 4096; 0: 1, with MPI as were started */
  double deadline_seconds; /* without progress, a run of several processes ends; 0: 300 */
  const char* modules; /* folder of libtessera_mpi.so; null: that of TESSERA_MODULES, or found */
  const char* trace;   /* the file of a trace, which tessera_runtime_finish completes; null: none */
} tessera_runtime_options;

typedef struct tessera_runtime tessera_runtime;

/* Creates a runtime; a local one if `options` is null. */
TESSERA_C_API int tessera_runtime_create(const tessera_runtime_options* options,
                                         tessera_runtime** runtime);
/* Call it after its engines are destroyed; null: nothing. Without tessera_runtime_finish before it,
 * it ends the run of all processes. */
TESSERA_C_API void tessera_runtime_destroy(tessera_runtime* runtime);
/* The ranks of the run, and the local ones, which this process computes: first_rank ...
 * first_rank + local_ranks - 1. */
TESSERA_C_API int32_t tessera_runtime_ranks(const tessera_runtime* runtime);
TESSERA_C_API int32_t tessera_runtime_first_rank(const tessera_runtime* runtime);
TESSERA_C_API int32_t tessera_runtime_local_ranks(const tessera_runtime* runtime);
/* Waits for all work of engines: every callback so far has been called. An engine that is destroyed
 * between it (or tessera_runtime_mean) and the next call gives its memory back to the runtime. */
TESSERA_C_API int tessera_runtime_wait(tessera_runtime* runtime);
/* Waits for all work of engines, then computes the mean of one value per rank of the run. `values`
 * has one for each local rank and is read after that work is done. */
TESSERA_C_API int tessera_runtime_mean(tessera_runtime* runtime, const float* values, float* mean);
/* Lets collectives go on; for callbacks that compute for milliseconds. */
TESSERA_C_API int tessera_runtime_poll(tessera_runtime* runtime);
/* Waits for all work and all ranks. Call it once, at the end, before engines are destroyed. */
TESSERA_C_API int tessera_runtime_finish(tessera_runtime* runtime);
/* Ends the run of all ranks because of an error outside of Tessera; their error message is `why`.
 */
TESSERA_C_API void tessera_runtime_give_up(tessera_runtime* runtime, const char* why);

/* ---- Engines ---- */

typedef struct tessera_engine tessera_engine;

/* scheme: "fully_shard", "full_shard", "shard_grad_op", "no_shard", "replicate",
 * "sharded_data_parallel", "zero1", "zero2", "zero3", "deepspeed". options: null, or a JSON object
 * of what is not as usual (docs/embedding.md). The runtime must outlive the engine. */
TESSERA_C_API int tessera_engine_create(tessera_runtime* runtime, const tessera_model* model,
                                        const char* scheme, const char* options,
                                        tessera_engine** engine);
/* Call it after tessera_runtime_finish, tessera_runtime_wait or tessera_runtime_mean, or after a
 * failure. */
TESSERA_C_API void tessera_engine_destroy(tessera_engine* engine);

/* The initial value of element `index` of a parameter, the same on all ranks. */
typedef float (*tessera_value_fn)(void* user, int32_t parameter, int64_t index);
TESSERA_C_API int tessera_engine_initialise(tessera_engine* engine, tessera_value_fn value,
                                            void* user);

/* The same from arrays: values[p] has all elements of parameter p. */
TESSERA_C_API int tessera_engine_initialise_from(tessera_engine* engine,
                                                 const float* const* values);

typedef enum tessera_pass_kind {
  TESSERA_FORWARD = 0,
  TESSERA_BACKWARD = 1,
  TESSERA_RECOMPUTE = 2,
  TESSERA_EVALUATE = 3 /* forward without a backward to follow */
} tessera_pass_kind;

typedef struct tessera_tensor {
  int32_t parameter; /* its number */
  int32_t dtype;     /* a tessera_dtype, of value and gradient */
  int64_t numel;
  const void* value; /* all elements */
  void* gradient;    /* in backward: zero before the first; add to it. Null: forward, or frozen */
} tessera_tensor;

/* One module of one pass on one rank. Everything in it is valid during the call only. */
typedef struct tessera_pass {
  uint32_t struct_size;
  int32_t kind; /* a tessera_pass_kind */
  int32_t rank;
  int32_t micro_batch;
  const char* module;
  int32_t tensor_count; /* parameters of the module and those below it, in order */
  const tessera_tensor* tensors;
} tessera_pass;

/* Gradients are averaged over ranks and added up over micro-batches. */
typedef void (*tessera_compute_fn)(void* user, const tessera_pass* pass);

typedef struct tessera_step_options {
  uint32_t struct_size;
  int32_t accumulation; /* micro-batches; 0: 1 */
  float learning_rate;  /* AdamW; 0: 1e-3 */
  float beta1;          /* 0: 0.9 */
  float beta2;          /* 0: 0.999 */
  float epsilon;        /* 0: 1e-8 */
  float weight_decay;
  float max_grad_norm;      /* above 0: clips */
  int32_t checkpoint;       /* not 0: runs the forward of blocks again in backward */
  int32_t reduce_last_only; /* not 0: gradients are reduced in the last micro-batch only */
  int32_t grad_norm;        /* not 0: the norm is computed, for tessera_engine_grad_norm */
} tessera_step_options;

/* Forward along the model's order, backward in reverse, for every micro-batch, and the optimizer.
 * `compute` and `user` must stay until tessera_runtime_mean or tessera_runtime_finish has returned:
 * work may wait until then. It is called in the calling thread. */
TESSERA_C_API int tessera_engine_step(tessera_engine* engine, const tessera_step_options* options,
                                      tessera_compute_fn compute, void* user);

/* ---- A step in the program's own order, instead of tessera_engine_step ----
 *
 * The program says where a pass is, and computes when it likes:
 *
 *   tessera_engine_begin(engine, TESSERA_FORWARD);
 *   tessera_engine_enter(engine, "h.0");                          gathers what h.0 needs
 *   tessera_engine_compute(engine, "h.0.attn", compute, user);    as often as there are modules
 *   tessera_engine_leave(engine, "h.0");                          frees it, if the scheme does
 *   ...
 *   tessera_engine_end(engine);
 *   tessera_engine_begin(engine, TESSERA_BACKWARD);               the same in reverse
 *   ...
 *   tessera_engine_end(engine);
 *   tessera_engine_update(engine, NULL);                          the optimizer
 *
 * Modules are entered like brackets, from outside to inside; those that are no units of the scheme
 * may be left out. All ranks do the same. Several forward and backward passes before an update add
 * their gradients up. A pass with TESSERA_EVALUATE has no backward. Of the options an update takes
 * the numbers of AdamW, max_grad_norm and grad_norm; others are refused. */
TESSERA_C_API int tessera_engine_begin(tessera_engine* engine, int32_t pass_kind);
TESSERA_C_API int tessera_engine_enter(tessera_engine* engine, const char* module);
/* Calls `compute` for every local rank before it returns. */
TESSERA_C_API int tessera_engine_compute(tessera_engine* engine, const char* module,
                                         tessera_compute_fn compute, void* user);
TESSERA_C_API int tessera_engine_leave(tessera_engine* engine, const char* module);
TESSERA_C_API int tessera_engine_end(tessera_engine* engine);
/* Steps the optimizer. It ignores the options `accumulation`, `checkpoint` and `reduce_last_only`.
 */
TESSERA_C_API int tessera_engine_update(tessera_engine* engine,
                                        const tessera_step_options* options);

/* The 2-norm of all gradients of the last step, before they were clipped; waits for it. Fails:
 * TESSERA_INVALID_ARGUMENT, if that step computed none (grad_norm, max_grad_norm). */
TESSERA_C_API int tessera_engine_grad_norm(tessera_engine* engine, float* norm);

/* ---- Parameter groups: what the optimizer steps, and with which numbers ----
 *
 * At first there is one group with all parameters. A parameter that is in no group is not stepped
 * and has no optimizer state. */
enum {
  TESSERA_LEARNING_RATE = 1,
  TESSERA_BETA1 = 2,
  TESSERA_BETA2 = 4,
  TESSERA_EPSILON = 8,
  TESSERA_WEIGHT_DECAY = 16
};
typedef struct tessera_group {
  uint32_t struct_size;
  int32_t count;
  const int32_t* parameters; /* `count` numbers */
  uint32_t given; /* which of the following differ from those of a step: TESSERA_BETA1 | ... */
  float learning_rate, beta1, beta2, epsilon, weight_decay;
} tessera_group;

/* Instead of that group, before the first step. `groups`: an array. */
TESSERA_C_API int tessera_engine_set_groups(tessera_engine* engine, const tessera_group* groups,
                                            int32_t count);
/* Parameters that are in no group, at any time between two steps. */
TESSERA_C_API int tessera_engine_add_group(tessera_engine* engine, const tessera_group* group);
/* Other numbers for group `number`, from the next step on; its parameters stay. */
TESSERA_C_API int tessera_engine_change_group(tessera_engine* engine, int32_t number,
                                              const tessera_group* numbers);

/* ---- Weights: between two steps, by all ranks at the same time ---- */

/* Writes all parameters into one safetensors file, under their published names; rank 0's machine
 * has it. dtype: a tessera_dtype. */
TESSERA_C_API int tessera_export_weights(tessera_engine* engine, const char* file, int32_t dtype);
/* Reads them from one. Nothing changes if it fails. */
TESSERA_C_API int tessera_import_weights(tessera_engine* engine, const char* file);
/* All elements of a parameter, gathered, on every rank; `numel` must be its number of elements. */
TESSERA_C_API int tessera_engine_get_parameter(tessera_engine* engine, int32_t parameter,
                                               float* values, int64_t numel);
/* Sets them. Every rank passes the same values, and keeps its part. */
TESSERA_C_API int tessera_engine_set_parameter(tessera_engine* engine, int32_t parameter,
                                               const float* values, int64_t numel);

/* ---- Hooks of gradients: scheme "replicate", before the first step ---- */

/* A full bucket of gradients on one rank. Valid during the call. */
typedef struct tessera_bucket {
  uint32_t struct_size;
  int32_t rank;
  int32_t number;  /* in the order of reduction */
  int32_t is_last; /* of this backward pass */
  int32_t dtype;   /* a tessera_dtype */
  int64_t numel;
  void* values; /* change them in place */
} tessera_bucket;
typedef void (*tessera_bucket_fn)(void* user, const tessera_bucket* bucket);

/* `before` sees a rank's own gradients before they are added up, `after` their mean over ranks;
 * either may be null. */
TESSERA_C_API int tessera_engine_set_hook(tessera_engine* engine, tessera_bucket_fn before,
                                          tessera_bucket_fn after, void* user);

/* ---- Checkpoints: between two steps, by all ranks at the same time. ---- */

typedef struct tessera_save_options {
  uint32_t struct_size;
  int32_t keep;      /* how many checkpoints stay in the folder; 0: 2, -1: all */
  const char* state; /* the program's own text, which tessera_load gives back; null: none */
} tessera_save_options;

/* Saves the engine into directory/step-000123; returns when the checkpoint is complete. */
TESSERA_C_API int tessera_save(tessera_engine* engine, const char* directory, int64_t step,
                               const tessera_save_options* options);
/* Loads a checkpoint, or the newest one in a folder, of any scheme and number of ranks. step and
 * state may be null; *state is valid until the engine loads again or is destroyed. */
TESSERA_C_API int tessera_load(tessera_engine* engine, const char* path, int64_t* step,
                               const char** state);

/* Receives elements [first, first + count) of the parameter, as `rank` keeps them in float32. It is
 * called for every local rank and piece before tessera_engine_read_shards returns. */
typedef void (*tessera_shard_fn)(void* user, int32_t rank, int64_t first, const float* values,
                                 int64_t count);
TESSERA_C_API int tessera_engine_read_shards(tessera_engine* engine, int32_t parameter,
                                             tessera_shard_fn read, void* user);

/* ---- Traces: questions in SQL, answered in columns (docs/query.md has the tables) ---- */

typedef enum tessera_column_type {
  TESSERA_INTEGER = 0,
  TESSERA_REAL = 1,
  TESSERA_TEXT = 2
} tessera_column_type;

typedef struct tessera_table tessera_table;
typedef struct tessera_column {
  uint32_t struct_size;
  int32_t type; /* a tessera_column_type: the first that holds all values of the column */
  const char* name;
  const int64_t* integers;  /* by row, if its type is integer */
  const double* reals;      /* by row, if its type is real */
  const int32_t* codes;     /* by row, if its type is text: a place in `texts`, each text once;
                                a blob is the text "x'00ff'" */
  const char* const* texts; /* `text_count` of them */
  int32_t text_count;
  const uint8_t* nulls; /* by row: 1 where there is no value; null: there is one in every row */
} tessera_column;

/* Runs one SELECT on a trace file. */
TESSERA_C_API int tessera_query(const char* trace, const char* sql, tessera_table** table);
TESSERA_C_API void tessera_table_destroy(tessera_table* table);
TESSERA_C_API int64_t tessera_table_row_count(const tessera_table* table);
TESSERA_C_API int32_t tessera_table_column_count(const tessera_table* table);
/* Column `number`, counted from 0; set column->struct_size. What it points to lives as long as the
 * table. */
TESSERA_C_API int tessera_table_column(const tessera_table* table, int32_t number,
                                       tessera_column* column);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_C_TESSERA_H */
