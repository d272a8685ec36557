// SPDX-License-Identifier: Apache-2.0
// Whether the numbers of a trace are such as a run can have, so that sums of them are safe and
// nothing impossible is shown.
#pragma once

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// Fails: corrupt, with what is wrong as the middle of a sentence.
Status check_values(const Trace& trace);

}  // namespace tessera::analysis
