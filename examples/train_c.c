/* SPDX-License-Identifier: Apache-2.0
 * Trains two linear layers on data made up here; the engine shards, this program computes.
 *   train_c [local | simulator | mpi | driven] [scheme]
 * Every rank sees other samples; what is printed is the mean over ranks. With "driven" the program
 * says where every pass is, as one does that has an order of its own; the numbers are those of
 * "local". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/c/tessera.h"

enum { inputs = 4, hidden = 8, samples = 16, steps = 30, ranks_max = 8 };

static const char* const model_json =
    "{\"tessera_model\": 1, \"name\": \"two layers\", \"root\": {\"class\": \"Net\", \"modules\": ["
    "{\"name\": \"first\", \"class\": \"Linear\","
    " \"parameters\": [{\"name\": \"weight\", \"shape\": [8, 4]}]},"
    "{\"name\": \"second\", \"class\": \"Linear\","
    " \"parameters\": [{\"name\": \"weight\", \"shape\": [1, 8]}]}]}}";

/* What one rank keeps from forward to backward. */
typedef struct state {
  float x[samples][inputs], h[samples][hidden], grad_h[samples][hidden], grad_out[samples];
} state;

static state states[ranks_max];
static float losses[ranks_max];
static int32_t first_rank;

static float noise(int64_t n) { return (float)((n * 7919 + 13) % 1000) / 500.0F - 1.0F; }

static float initial_value(void* user, int32_t parameter, int64_t index) {
  (void)user;
  return noise(index + 1000 * parameter) / 2;
}

static void first_layer(const tessera_pass* pass, state* s) {
  const float* weight = pass->tensors[0].value;
  float* gradient = pass->tensors[0].gradient;
  for (int n = 0; n < samples; ++n) {
    for (int i = 0; i < inputs && pass->kind == TESSERA_FORWARD; ++i) {
      s->x[n][i] = noise(n * inputs + i + 100 * pass->rank);
    }
    for (int h = 0; h < hidden; ++h) {
      if (pass->kind == TESSERA_FORWARD) s->h[n][h] = 0;
      for (int i = 0; i < inputs; ++i) {
        if (pass->kind == TESSERA_FORWARD) {
          s->h[n][h] += weight[h * inputs + i] * s->x[n][i];
        } else {
          gradient[h * inputs + i] += s->grad_h[n][h] * s->x[n][i];
        }
      }
    }
  }
}

static void second_layer(const tessera_pass* pass, state* s, float* loss) {
  const float* weight = pass->tensors[0].value;
  float* gradient = pass->tensors[0].gradient;
  if (pass->kind == TESSERA_FORWARD) *loss = 0;
  for (int n = 0; n < samples; ++n) {
    const float target = s->x[n][0] - 2 * s->x[n][1] + s->x[n][3];
    float out = 0;
    for (int h = 0; h < hidden; ++h) out += weight[h] * s->h[n][h];
    if (pass->kind == TESSERA_FORWARD) {
      *loss += (out - target) * (out - target) / samples;
      s->grad_out[n] = 2 * (out - target) / samples;
      continue;
    }
    for (int h = 0; h < hidden; ++h) {
      gradient[h] += s->grad_out[n] * s->h[n][h];
      s->grad_h[n][h] = s->grad_out[n] * weight[h];
    }
  }
}

static void compute(void* user, const tessera_pass* pass) {
  (void)user;
  const int32_t own = pass->rank - first_rank;
  if (strcmp(pass->module, "first") == 0) {
    first_layer(pass, &states[own]);
  } else {
    second_layer(pass, &states[own], &losses[own]);
  }
}

/* What tessera_engine_step does. */
static int driven_step(tessera_engine* engine, const tessera_step_options* adam) {
  static const char* const modules[] = {"first", "second"};
  for (int32_t kind = TESSERA_FORWARD; kind <= TESSERA_BACKWARD; ++kind) {
    int code = tessera_engine_begin(engine, kind);
    for (int m = 0; m < 2 && !code; ++m) {
      const char* module = modules[kind == TESSERA_FORWARD ? m : 1 - m];
      code = tessera_engine_enter(engine, module);
      if (!code) code = tessera_engine_compute(engine, module, compute, NULL);
      if (!code) code = tessera_engine_leave(engine, module);
    }
    if (!code) code = tessera_engine_end(engine);
    if (code) return code;
  }
  return tessera_engine_update(engine, adam);
}

static int failed(void) {
  fprintf(stderr, "%s\n", tessera_last_error());
  return 1;
}

int main(int argc, char** argv) {
  const char* where = argc > 1 ? argv[1] : "local";
  tessera_runtime_options options = {.struct_size = sizeof options};
  if (strcmp(where, "simulator") == 0) {
    options.kind = TESSERA_SIMULATOR;
    options.ranks = 4;
  }
  if (strcmp(where, "mpi") == 0) options.kind = TESSERA_MPI;
  if (argc > 3) options.modules = argv[3];
  tessera_model* model;
  tessera_runtime* runtime;
  tessera_engine* engine;
  if (tessera_model_from_json(model_json, &model)) return failed();
  if (tessera_runtime_create(&options, &runtime)) return failed();
  first_rank = tessera_runtime_first_rank(runtime);
  if (tessera_engine_create(runtime, model, argc > 2 ? argv[2] : "fully_shard", NULL, &engine) ||
      tessera_engine_initialise(engine, initial_value, NULL)) {
    return failed();
  }
  const tessera_step_options adam = {.struct_size = sizeof adam, .learning_rate = 0.05F};
  for (int step = 0; step < steps; ++step) {
    float loss;
    const int code = strcmp(where, "driven") == 0
                         ? driven_step(engine, &adam)
                         : tessera_engine_step(engine, &adam, compute, NULL);
    if (code) return failed();
    if (tessera_runtime_mean(runtime, losses, &loss)) return failed();
    if (first_rank == 0 && step % 10 == 9) printf("step %d loss %.4f\n", step, (double)loss);
  }
  if (tessera_runtime_finish(runtime)) return failed();
  tessera_engine_destroy(engine);
  tessera_runtime_destroy(runtime);
  tessera_model_destroy(model);
  return 0;
}
