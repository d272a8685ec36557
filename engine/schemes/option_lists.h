// SPDX-License-Identifier: Apache-2.0
// The list of each scheme's option struct, beside the scheme (its options.cpp).
#pragma once

#include "engine/options/option_list.h"
#include "tessera/scheme.h"

namespace tessera {

const OptionList<FullyShardOptions>& option_list(const FullyShardOptions&);
const OptionList<Fsdp1Options>& option_list(const Fsdp1Options&);
const OptionList<ReplicateOptions>& option_list(const ReplicateOptions&);
const OptionList<ShardedDataParallelOptions>& option_list(const ShardedDataParallelOptions&);
const OptionList<Zero12Options>& option_list(const Zero12Options&);
const OptionList<Zero3Options>& option_list(const Zero3Options&);

}  // namespace tessera
