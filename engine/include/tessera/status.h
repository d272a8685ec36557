// SPDX-License-Identifier: Apache-2.0
// Operating errors are values: `Status` for functions without a result, `Result<T>` for the others.
//
// The idea: a code says how a caller can react, the message says what went wrong, with which
// (file, module, rank, size) and what to do. No exception crosses the public API. Programmer errors
// are assertions (assert.h) instead.
//
//   Result<Model> model = load_model("config.json");
//   if (!model) { std::cerr << model.status().message() << '\n'; return 2; }
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

/// One code per sensible reaction of a caller, not per cause.
enum class Code : unsigned char {
  ok = 0,
  invalid_argument,     // the request makes no sense: change it
  not_supported,        // it makes sense but this build or backend cannot do it
  out_of_memory,        // memory is exhausted: shard more, offload, or use a smaller batch
  communication_error,  // a peer or a link failed
  timed_out,            // a deadline passed
  io_error,             // a file or a device failed
  corrupt,              // stored data is damaged or not what it claims to be
  divergent,            // ranks would decide differently: on a cluster this hangs
  hazard,               // an operation order that races on a buffer
  cancelled,            // someone asked to stop
};

/// "invalid_argument", "hazard", ...
const char* name_of(Code code);

/// Success, or a code with one sentence for people.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// A value or the `Status` that explains its absence; shaped like `std::expected<T, Status>`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    TESSERA_ASSERT(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  /// REQUIRES: ok().
  T& value() & { return TESSERA_ASSERT(ok(), status_.message().c_str()), *value_; }
  const T& value() const& { return TESSERA_ASSERT(ok(), status_.message().c_str()), *value_; }
  T&& value() && { return TESSERA_ASSERT(ok(), status_.message().c_str()), std::move(*value_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tessera

#define TESSERA_CONCAT_(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_(a, b)

/// Returns the Status of `expression` from the enclosing function if it failed.
#define TESSERA_TRY(expression) \
  if (::tessera::Status status_of_try = (expression); !status_of_try.ok()) return status_of_try

/// `TESSERA_ASSIGN(auto id, runtime.allocate(...))`: declares `id`, or returns the error.
#define TESSERA_ASSIGN(declaration, expression) \
  TESSERA_ASSIGN_(declaration, expression, TESSERA_CONCAT(result_, __LINE__))
#define TESSERA_ASSIGN_(declaration, expression, result) \
  auto result = (expression);                            \
  if (!result.ok()) return result.status();              \
  declaration = std::move(result).value()
