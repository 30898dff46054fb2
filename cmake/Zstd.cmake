# zstd as a static library, from the source that scripts/setup.sh unpacks: ZSTD_ROOT holds lib/ of one
# version. Debian 12's 1.5.4 takes a tenth longer to compress pages
# (docs/decisions/2026-12-01-zstd-of-our-own-build.md). Makes the target zstd.
set(ZSTD_ROOT "" CACHE PATH "unpacked source of zstd")
if(NOT EXISTS "${ZSTD_ROOT}/lib/zstd.h")
  message(FATAL_ERROR "no zstd at ZSTD_ROOT (${ZSTD_ROOT}): configure by ./dev build")
endif()
file(GLOB _zstd_sources "${ZSTD_ROOT}/lib/common/*.c" "${ZSTD_ROOT}/lib/compress/*.c"
  "${ZSTD_ROOT}/lib/decompress/*.c" "${ZSTD_ROOT}/lib/decompress/*.S")
add_library(zstd STATIC ${_zstd_sources})
# Hidden: other libraries of the process keep the zstd that they were linked with.
target_compile_definitions(zstd PRIVATE ZSTD_LEGACY_SUPPORT=0 XXH_NAMESPACE=ZSTD_
  ZSTDLIB_VISIBLE= ZSTDERRORLIB_VISIBLE=)
target_compile_options(zstd PRIVATE -O3 -fvisibility=hidden)
set_target_properties(zstd PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(zstd SYSTEM INTERFACE "${ZSTD_ROOT}/lib")
