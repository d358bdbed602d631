/* test_error_text_languages.c - translated messages: the same numbers in other words. */
#include "parse/error_text_internal.h"

#include "error_text_samples.h"
#include "support/cmocka_here.h"

typedef struct translated {
    const char *language, *text;
    uint64_t tried, total, free, allocated, reserved;
} translated;

/* The same failure each time: 2 GiB of 8, 6.5 in use, 6.7 reserved, 100 MiB free. */
#define SAME                                                                                       \
    HUNDREDTHS(200, GIB), HUNDREDTHS(800, GIB), HUNDREDTHS(10000, MIB), HUNDREDTHS(650, GIB),      \
        HUNDREDTHS(670, GIB)

static const translated texts[] = {
    {"Chinese, as a collection of errors has it",
     "torch.cuda.OutOfMemoryError: CUDA 内存不足。尝试分配 2.00 GiB。GPU 0 总容量 8.00 GiB；已分配 "
     "7.80 GiB。\n",
     HUNDREDTHS(200, GIB), HUNDREDTHS(800, GIB), UNKNOWN, HUNDREDTHS(780, GIB), UNKNOWN},
    {"Chinese, phrases behind the numbers",
     "RuntimeError: CUDA内存不足。 尝试分配 2.00 GiB（GPU 0；8.00 GiB 总容量；6.50 GiB "
     "已分配；100.00 "
     "MiB 可用；6.70 GiB 由PyTorch总共保留）\n",
     SAME},
    {"Chinese, phrases before the numbers, colons",
     "RuntimeError: CUDA 显存不足。试图分配：2.00 GiB (GPU 0; 总容量：8.00 GiB; 已分配：6.50 GiB; "
     "空闲：100.00 MiB; 总共保留：6.70 GiB)\n",
     SAME},
    {"Chinese, full width, units spelled out",
     "RuntimeError：CUDA 显存溢出。试图分配 ２.００ 吉字节（GPU 0；总容量 ８.００ "
     "吉字节；已分配 ６.５０ 吉字节；剩余 １００ 兆字节；PyTorch 总共保留 ６.７０ 吉字节）\n",
     SAME},
    {"Chinese, PyTorch 2",
     "torch.OutOfMemoryError: CUDA 显存不足。尝试分配 2.00 GiB。GPU 0 的总容量为 8.00 GiB，其中 "
     "100.00 "
     "MiB 空闲。此进程已使用 7.00 GiB 内存。PyTorch 已分配 6.50 GiB，保留但未分配 204.80 MiB。\n",
     SAME},
    {"Japanese",
     "RuntimeError: CUDA メモリ不足です。2.00 GiB を割り当てようとしました (GPU 0; 合計容量 8.00 "
     "GiB; "
     "割り当て済み 6.50 GiB; 空き 100.00 MiB; PyTorch による予約済み 6.70 GiB)\n",
     SAME},
    {"Korean",
     "RuntimeError: CUDA 메모리 부족. 2.00 GiB를 할당하려고 했습니다 (GPU 0; 총 용량 8.00 GiB; "
     "이미 "
     "할당됨 6.50 GiB; 사용 가능 100.00 MiB; PyTorch가 예약한 총량 6.70 GiB)\n",
     SAME},
    {"German",
     "RuntimeError: CUDA-Speicher reicht nicht aus. Es wurde versucht, 2,00 GiB zuzuweisen (GPU 0; "
     "8,00 GiB Gesamtkapazität; 6,50 GiB bereits zugewiesen; 100,00 MiB frei; 6,70 GiB insgesamt "
     "von PyTorch reserviert)\n",
     SAME},
    {"French",
     "RuntimeError : mémoire CUDA insuffisante. Tentative d'allocation de 2,00 Gio (GPU 0 ; "
     "capacité totale de 8,00 Gio ; 6,50 Gio déjà alloués ; 100,00 Mio libres ; 6,70 Gio réservés "
     "au total par PyTorch)\n",
     SAME},
    {"Russian",
     "RuntimeError: Недостаточно памяти CUDA. Попытка выделить 2,00 ГиБ (GPU 0; общий объём 8,00 "
     "ГиБ; уже выделено 6,50 ГиБ; свободно 100,00 МиБ; всего зарезервировано PyTorch 6,70 ГиБ)\n",
     SAME},
    {"Spanish",
     "RuntimeError: CUDA sin memoria. Se intentó asignar 2,00 GiB (GPU 0; 8,00 GiB de capacidad "
     "total; 6,50 GiB ya asignados; 100,00 MiB libres; 6,70 GiB reservados en total por PyTorch)\n",
     SAME},
    {"Portuguese",
     "RuntimeError: CUDA sem memória. Tentou alocar 2,00 GiB (GPU 0; 8,00 GiB de capacidade total; "
     "6,50 GiB já alocados; 100,00 MiB livres; 6,70 GiB reservados no total pelo PyTorch)\n",
     SAME},
    {"Italian",
     "RuntimeError: memoria insufficiente su CUDA. Tentativo di allocare 2,00 GiB (GPU 0; 8,00 GiB "
     "di capacità totale; 6,50 GiB già allocati; 100,00 MiB liberi; 6,70 GiB riservati in totale "
     "da PyTorch)\n",
     SAME},
};

static vw__error_text_report report_of(const char *text, vw__error_text_kind kind)
{
    vw__error_text_summary summary = scan_text(text);
    assert_int_equal(summary.report_count, 1);
    assert_int_equal(summary.first.kind, kind);
    return summary.first;
}

static void numbers_are_read_in_every_language(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        vw__error_text_report got = report_of(texts[i].text, VW__ERROR_TEXT_TORCH_CUDA);
        if (got.tried_bytes != texts[i].tried || got.total_bytes != texts[i].total ||
            got.free_bytes != texts[i].free || got.allocated_bytes != texts[i].allocated ||
            got.reserved_bytes != texts[i].reserved)
            fail_msg("%s: tried %llu, total %llu, free %llu, allocated %llu, reserved %llu",
                     texts[i].language, (unsigned long long)got.tried_bytes,
                     (unsigned long long)got.total_bytes, (unsigned long long)got.free_bytes,
                     (unsigned long long)got.allocated_bytes,
                     (unsigned long long)got.reserved_bytes);
        assert_int_equal(got.device, 0);
    }
}

static void words_without_a_size_are_no_report(void **state)
{
    static const char *const prose[] = {
        "Si la mémoire CUDA insuffisante vous gêne, réduisez le lot.\n",
        "Wenn der CUDA-Speicher reicht nicht, hilft ein kleinerer Batch.\n",
        "Если недостаточно памяти CUDA, уменьшите пакет.\n",
        "CUDA メモリ不足の対処法\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof prose / sizeof *prose; i++)
        assert_int_equal(scan_text(prose[i]).report_count, 0);
}

static void assert_squeezed(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((char)vw__error_text_squeezed[(unsigned char)*at] != *at)
            fail_msg("\"%s\" has a byte that squeezing changes: 0x%02x", text,
                     (unsigned)(unsigned char)*at);
}

static void phrases_are_written_as_squeezing_leaves_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < vw__error_text_translated_rule_count; i++)
        assert_squeezed(vw__error_text_translated_rules[i].word);
    for (size_t i = 0; i < vw__error_text_translated_clause_count; i++) {
        assert_squeezed(vw__error_text_translated_clauses[i].before);
        assert_squeezed(vw__error_text_translated_clauses[i].behind);
    }
    for (size_t i = 0; i < vw__error_text_filler_count; i++)
        assert_squeezed(vw__error_text_fillers[i]);
    for (size_t i = 0; i < vw__error_text_local_unit_count; i++)
        assert_squeezed(vw__error_text_local_units[i].name);
}

/* cupy/cupy 1912, motokimura/spacenet_building_detection 3 */
static void what_cupy_calls_total_is_its_pool_and_the_request(void **state)
{
    (void)state;
    vw__error_text_report got =
        report_of("cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 1073741824 bytes "
                  "(total 12373894656 bytes)\n",
                  VW__ERROR_TEXT_CUPY);
    assert_int_equal(got.tried_bytes, 1073741824);
    assert_int_equal(got.reserved_bytes, UINT64_C(12373894656) - 1073741824);
    assert_int_equal(got.total_bytes, UNKNOWN);
    got = report_of("Exception in main training loop: out of memory to allocate 163840000 bytes "
                    "(total 1673061376 bytes)\n",
                    VW__ERROR_TEXT_CUPY);
    assert_int_equal(got.reserved_bytes, 1673061376 - 163840000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_in_every_language),
        cmocka_unit_test(words_without_a_size_are_no_report),
        cmocka_unit_test(phrases_are_written_as_squeezing_leaves_them),
        cmocka_unit_test(what_cupy_calls_total_is_its_pool_and_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
