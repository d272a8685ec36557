// SPDX-License-Identifier: Apache-2.0
#include "engine/base/param_shard.h"

namespace tessera {
namespace {

constexpr std::int64_t scaled_together = 256;  // elements of 8 bits with a float32 scale

}  // namespace

View ParamShard::moment(BufferId moment) const {
  if (!state_type) return View::whole(moment, dtype, map.shard());
  switch (*state_type) {
    case StateType::float32: return View::whole(moment, DType::float32, map.shard());
    case StateType::bfloat16: return View::whole(moment, DType::bfloat16, map.shard());
    case StateType::int8: break;
  }
  const std::int64_t n = map.shard().value;
  const std::int64_t scales = (n + scaled_together - 1) / scaled_together;
  return View::whole(moment, DType::uint8, Numel{n + scales * size_of(DType::float32).value});
}

Bytes ParamShard::moment_bytes() const {
  const View all = moment({});
  return bytes_of(all.numel, all.dtype);
}

}  // namespace tessera
