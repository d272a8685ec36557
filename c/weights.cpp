// SPDX-License-Identifier: Apache-2.0
// Weights as files and as arrays.
#include "tessera/weights.h"

#include <fmt/format.h>

#include "c/handles.h"
#include "tessera/summon.h"

namespace tessera::c {
namespace {

Status export_to(tessera_engine& engine, const char* file, std::int32_t dtype) {
  if (dtype < TESSERA_FLOAT32 || dtype > TESSERA_FLOAT16) {
    return Status(Code::invalid_argument,
                  "dtype: TESSERA_FLOAT32, TESSERA_BFLOAT16 or TESSERA_FLOAT16");
  }
  return export_weights(*engine.engine, file, {.dtype = static_cast<DType>(dtype)});
}

Result<ParameterId> whole(const tessera_engine& engine, std::int32_t parameter,
                          std::int64_t numel) {
  TESSERA_ASSIGN(const ParameterId id, known(engine, parameter));
  const Parameter& found = engine.model->parameter(id);
  if (numel == found.numel().value) return id;
  return Status(Code::invalid_argument,
                fmt::format("parameter {}, {}, has {} elements, not {}", parameter, found.name,
                            found.numel().value, numel));
}

Status get(tessera_engine& engine, std::int32_t parameter, float* values, std::int64_t numel) {
  TESSERA_ASSIGN(const ParameterId id, whole(engine, parameter, numel));
  TESSERA_ASSIGN(const auto full, summon_full_params(*engine.engine, {.writeback = false}));
  const Rank first = engine.runtime.calls->local_ranks().first();
  TESSERA_TRY(full->read(id, [&](Rank rank, std::span<const float> all) {
    if (rank == first) std::copy(all.begin(), all.end(), values);
  }));
  return full->close();
}

Status set(tessera_engine& engine, std::int32_t parameter, const float* values,
           std::int64_t numel) {
  TESSERA_ASSIGN(const ParameterId id, whole(engine, parameter, numel));
  TESSERA_ASSIGN(const auto full, summon_full_params(*engine.engine));
  TESSERA_TRY(full->modify(
      id, [&](Rank, std::span<float> all) { std::copy_n(values, all.size(), all.begin()); }));
  TESSERA_TRY(full->commit());
  return full->close();
}

Status initialise_from(tessera_engine& engine, const float* const* values) {
  for (std::size_t p = 0; p < engine.model->parameters.size(); ++p) {
    if (values[p] != nullptr) continue;
    return Status(Code::invalid_argument, fmt::format("the values of parameter {}, {}, are null", p,
                                                      engine.model->parameters[p].name));
  }
  TESSERA_TRY(engine.engine->initialise(
      [values](ParameterId id, Numel index) { return values[id.index()][index.value]; }));
  return engine.runtime.calls->wait();  // the arrays are the caller's
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_export_weights(tessera_engine* engine, const char* file, int32_t dtype) {
  return guarded([&] { return tessera::c::export_to(*engine, file, dtype); }, engine, file);
}

int tessera_import_weights(tessera_engine* engine, const char* file) {
  return guarded([&] { return tessera::import_weights(*engine->engine, file); }, engine, file);
}

int tessera_engine_get_parameter(tessera_engine* engine, int32_t parameter, float* values,
                                 int64_t numel) {
  return guarded([&] { return tessera::c::get(*engine, parameter, values, numel); }, engine,
                 values);
}

int tessera_engine_set_parameter(tessera_engine* engine, int32_t parameter, const float* values,
                                 int64_t numel) {
  return guarded([&] { return tessera::c::set(*engine, parameter, values, numel); }, engine,
                 values);
}

int tessera_engine_initialise_from(tessera_engine* engine, const float* const* values) {
  return guarded([&] { return tessera::c::initialise_from(*engine, values); }, engine, values);
}
