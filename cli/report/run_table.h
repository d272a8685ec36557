// SPDX-License-Identifier: Apache-2.0
// The head of a report: what ran, on what, whether it fits, and how sure its figures are.
#pragma once

#include "cli/report/report.h"
#include "cli/report/table.h"

namespace tessera::cli {

Table run_table(const RunReport& report);

}  // namespace tessera::cli
