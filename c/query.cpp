// SPDX-License-Identifier: Apache-2.0
// Answers of traces as columns.
#include "query/query.h"

#include <fmt/format.h>

#include <deque>
#include <unordered_map>

#include "c/handles.h"
#include "query/text.h"

namespace tessera::c {
namespace {

// Values of one type: the first of integer, real and text that holds all so far.
class TableColumn {
 public:
  explicit TableColumn(std::string name) : name_(std::move(name)) {}

  void add(const query::Value& value) {
    nulls_.push_back(std::holds_alternative<std::monostate>(value) ? 1 : 0);
    any_null_ = any_null_ || nulls_.back() != 0;
    if (const auto* text = std::get_if<std::string>(&value)) {
      become_text();
      codes_.push_back(code(*text));
    } else if (const auto* real = std::get_if<double>(&value); real && type_ != TESSERA_TEXT) {
      become_real();
      reals_.push_back(*real);
    } else if (std::holds_alternative<query::Blob>(value)) {
      become_text();
      codes_.push_back(code(query::text_of(value)));
    } else {
      add_number(value);
    }
  }

  tessera_column shown() const {
    return {.struct_size = sizeof(tessera_column),
            .type = type_,
            .name = name_.c_str(),
            .integers = type_ == TESSERA_INTEGER ? integers_.data() : nullptr,
            .reals = type_ == TESSERA_REAL ? reals_.data() : nullptr,
            .codes = type_ == TESSERA_TEXT ? codes_.data() : nullptr,
            .texts = type_ == TESSERA_TEXT ? pointers_.data() : nullptr,
            .text_count = static_cast<std::int32_t>(pointers_.size()),
            .nulls = any_null_ ? nulls_.data() : nullptr};
  }

 private:
  void add_number(const query::Value& value) {
    const auto* whole = std::get_if<std::int64_t>(&value);
    const std::int64_t number = whole != nullptr ? *whole : 0;
    const auto* real = std::get_if<double>(&value);
    if (type_ == TESSERA_INTEGER) integers_.push_back(number);
    if (type_ == TESSERA_REAL) reals_.push_back(static_cast<double>(number));
    if (type_ != TESSERA_TEXT) return;
    codes_.push_back(nulls_.back() != 0 ? 0
                                        : code(real != nullptr ? fmt::format("{}", *real)
                                                               : fmt::format("{}", number)));
  }

  void become_real() {
    if (type_ != TESSERA_INTEGER) return;
    type_ = TESSERA_REAL;
    reals_.assign(integers_.begin(), integers_.end());
    integers_.clear();
  }

  void become_text() {
    if (type_ == TESSERA_TEXT) return;
    for (std::size_t k = 0; k + 1 < nulls_.size(); ++k) {
      const bool real = type_ == TESSERA_REAL;
      codes_.push_back(nulls_[k] != 0 ? 0
                       : real         ? code(fmt::format("{}", reals_[k]))
                                      : code(fmt::format("{}", integers_[k])));
    }
    type_ = TESSERA_TEXT;
  }

  std::int32_t code(const std::string& text) {
    const auto [at, fresh] = known_.try_emplace(text, static_cast<std::int32_t>(known_.size()));
    if (fresh) pointers_.push_back(at->first.c_str());  // keys stay where they are
    return at->second;
  }

  std::string name_;
  std::int32_t type_ = TESSERA_INTEGER;
  bool any_null_ = false;
  std::vector<std::int64_t> integers_;
  std::vector<double> reals_;
  std::vector<std::int32_t> codes_;
  std::vector<std::uint8_t> nulls_;
  std::unordered_map<std::string, std::int32_t> known_;
  std::vector<const char*> pointers_;
};

}  // namespace
}  // namespace tessera::c

struct tessera_table {
  std::vector<tessera::c::TableColumn> columns;
  std::int64_t rows = 0;
};

namespace tessera::c {
namespace {

Status ask(const char* trace, const char* sql, tessera_table*& table) {
  TESSERA_ASSIGN(query::Query query, query::Query::open(trace));
  auto made = std::make_unique<tessera_table>();
  TESSERA_TRY(query.run(sql, {.columns =
                                  [&](const std::vector<std::string>& names) {
                                    for (const auto& name : names) made->columns.emplace_back(name);
                                  },
                              .row =
                                  [&](const std::vector<query::Value>& row) {
                                    ++made->rows;
                                    for (std::size_t k = 0; k < row.size(); ++k) {
                                      made->columns[k].add(row[k]);
                                    }
                                  }}));
  table = made.release();
  return {};
}

Status show(const tessera_table& table, std::int32_t number, tessera_column& column) {
  if (number < 0 || number >= std::ssize(table.columns)) {
    return Status(Code::invalid_argument,
                  fmt::format("column {}: the table has {}", number, table.columns.size()));
  }
  const tessera_column shown = table.columns[static_cast<std::size_t>(number)].shown();
  const std::uint32_t size = std::min<std::uint32_t>(column.struct_size, sizeof shown);
  std::memcpy(&column, &shown, size);
  column.struct_size = size;
  return {};
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_query(const char* trace, const char* sql, tessera_table** table) {
  return guarded([&] { return tessera::c::ask(trace, sql, *table); }, trace, sql, table);
}

void tessera_table_destroy(tessera_table* table) { delete table; }

int64_t tessera_table_row_count(const tessera_table* table) {
  return table == nullptr ? -1 : table->rows;
}

int32_t tessera_table_column_count(const tessera_table* table) {
  return table == nullptr ? -1 : static_cast<std::int32_t>(table->columns.size());
}

int tessera_table_column(const tessera_table* table, int32_t number, tessera_column* column) {
  return guarded([&] { return tessera::c::show(*table, number, *column); }, table, column);
}
