// SPDX-License-Identifier: Apache-2.0
#include "training/loop/check_dtypes.h"

#include <fmt/format.h>

#include "tessera/math_arrays.h"

namespace tessera {

Status check_dtypes(const TrainerOptions& options, Processor processor) {
  const DType gathered = compute_dtype(options.scheme);
  if (!kernels::is_computed(options.dtype)) {
    return Status(
        Code::not_supported,
        fmt::format("training in {} is not supported: choose float32, bfloat16 or float16",
                    name_of(options.dtype)));
  }
  if (options.loss_scale && options.dtype != DType::float16) {
    return Status(
        Code::invalid_argument,
        fmt::format("TrainerOptions::loss_scale is for float16 alone, but modules compute "
                    "in {}: leave it unset",
                    name_of(options.dtype)));
  }
  TESSERA_TRY(check_one_dtype(options.scheme));
  if (options.step.adam.state_type == StateType::bfloat16 && processor != Processor::cpu) {
    return Status(Code::not_supported,
                  "AdamW's states in bfloat16 are stepped on CPUs only: keep them in float32");
  }
  if (gathered == DType::float32 || gathered == options.dtype) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} gathers parameters in {}, but modules compute in {}: choose one "
                            "dtype for both",
                            name_of(options.scheme), name_of(gathered), name_of(options.dtype)));
}

}  // namespace tessera
