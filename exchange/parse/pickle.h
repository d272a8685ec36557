// SPDX-License-Identifier: Apache-2.0
// Python's pickles, read as data: nothing in them is ever called.
//
// The idea: a pickle is a program for a small stack machine, protocols 0 to 5. Its numbers, texts
// and containers become values. What would import a name or call it becomes an `object` that only
// remembers name, arguments and state. Texts stay where they are in the file.
#pragma once

#include <string>

#include "exchange/parse/tree.h"

namespace tessera::exchange {

/// Takes the bytes of a file. Fails with what is wrong and where, to follow the file's name:
/// corrupt; not_supported for protocols after 5 and buffers out of band; out_of_memory for a tree
/// that would take more than three times the file and 24 MB.
Result<Tree> parse_pickle(std::string bytes);

}  // namespace tessera::exchange
