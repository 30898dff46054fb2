// From a physical type, which is known when a file is read, to code that is compiled for it.
#ifndef LITHIFY_REWRITE_PHYSICAL_TYPE_H_
#define LITHIFY_REWRITE_PHYSICAL_TYPE_H_

#include <parquet/types.h>

namespace lithify::rewrite {

// Calls `make` with a null pointer to the type's parquet::PhysicalType and returns its result:
// OfPhysicalType(type, [&]<typename DType>(DType*) { … }). `type` is one of Parquet's.
template <typename Make>
auto OfPhysicalType(parquet::Type::type type, const Make& make) {
  using parquet::Type;
  switch (type) {
    case Type::BOOLEAN: return make(static_cast<parquet::BooleanType*>(nullptr));
    case Type::INT32: return make(static_cast<parquet::Int32Type*>(nullptr));
    case Type::INT64: return make(static_cast<parquet::Int64Type*>(nullptr));
    case Type::INT96: return make(static_cast<parquet::Int96Type*>(nullptr));
    case Type::FLOAT: return make(static_cast<parquet::FloatType*>(nullptr));
    case Type::DOUBLE: return make(static_cast<parquet::DoubleType*>(nullptr));
    case Type::BYTE_ARRAY: return make(static_cast<parquet::ByteArrayType*>(nullptr));
    default: return make(static_cast<parquet::FLBAType*>(nullptr));
  }
}

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PHYSICAL_TYPE_H_
