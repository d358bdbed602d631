/* error_text_languages.c - messages that were translated.
 *
 * PyTorch's message is English, but people paste what a browser, a forum or a localised program
 * made of it. The numbers are the same, the phrases around them are not: here are those that
 * translators use, and the names that units have in other languages. This file is UTF-8.
 *
 * Letters are compared squeezed (error_text_words.h), and squeezing drops the bytes 0xa0 and 0xc2
 * wherever they are, so a phrase here avoids characters that have one of them (the a with a grave
 * accent, a few of Korean): it is then only the part before or behind. Cyrillic letters keep their
 * case. tests/unit/test_error_text_languages.c holds every row against that. */
#include "parse/error_text_internal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define K(name) VW__ERROR_TEXT_##name
#define F(name) VW__ERROR_TEXT_RULE_##name
#define TRANSLATED "PyTorch, translated"

/* Words that also stand in prose need a size to be a report. */
#define HEAD(word)                                                                                 \
    {                                                                                              \
        word, "cuda", 60, 60, K(TORCH_CUDA), F(NEEDS_SIZE), TRANSLATED                             \
    }

const vw__error_text_rule vw__error_text_translated_rules[] = {
    {"显存不足", "cuda", 24, 24, K(TORCH_CUDA), 0, TRANSLATED}, /* Chinese */
    {"显存溢出", "cuda", 24, 24, K(TORCH_CUDA), 0, TRANSLATED},
    {"显存溢出", NULL, 0, 0, K(OTHER_GPU), 0, NULL},
    HEAD("内存溢出"),
    HEAD("メモリ不足"), /* Japanese */
    HEAD("メモリが不足"),
    HEAD("메모리부족"), /* Korean */
    HEAD("메모리가부족"),
    HEAD("speicherreichtnicht"), /* German */
    HEAD("speichernichtausreichend"),
    HEAD("nichtgenügendspeicher"),
    HEAD("nichtgenugspeicher"),
    HEAD("nichtgenügendcudaspeicher"),
    HEAD("mémoireinsuffisante"), /* French */
    HEAD("mémoirecudainsuffisante"),
    HEAD("mémoiregpuinsuffisante"),
    HEAD("едостаточнопамяти"), /* Russian, with a capital or without */
    HEAD("ехватаетпамяти"),
    HEAD("sinmemoria"), /* Spanish */
    HEAD("memoriainsuficiente"),
    HEAD("memoriacudainsuficiente"),
    HEAD("memóriainsuficiente"), /* Portuguese */
    HEAD("semmemória"),
    HEAD("memoriainsufficiente"), /* Italian */
    HEAD("memoriaesaurita"),
};
const size_t vw__error_text_translated_rule_count = COUNT_OF(vw__error_text_translated_rules);

#define CLAUSE(before, behind, name) VW__ERROR_TEXT_CLAUSE(before, behind, true, name)

/* As the English table (error_text_clauses.c): the first that fits counts, what is longer and means
 * something else comes first. */
const vw__error_text_clause vw__error_text_translated_clauses[] = {
    /* Chinese */
    CLAUSE("尝试分配", "", tried),
    CLAUSE("试图分配", "", tried),
    CLAUSE("尝试申请", "", tried),
    CLAUSE("法分配", "", tried),
    CLAUSE("需要分配", "", tried),
    CLAUSE("", "的总容量", total),
    CLAUSE("", "总容量", total),
    CLAUSE("总容量", "", total),
    CLAUSE("总显存", "", total),
    CLAUSE("总内存", "", total),
    CLAUSE("", "保留但未分配", unallocated),
    CLAUSE("保留但未分配", "", unallocated),
    CLAUSE("预留但未分配", "", unallocated),
    CLAUSE("保留但未使用", "", unallocated),
    CLAUSE("", "被pytorch保留但未分配", unallocated),
    CLAUSE("", "由pytorch保留但未分配", unallocated),
    CLAUSE("", "由pytorch分配", allocated),
    CLAUSE("", "被pytorch分配", allocated),
    CLAUSE("", "由pytorch总共保留", reserved),
    CLAUSE("", "被pytorch保留", reserved),
    CLAUSE("", "已分配", allocated),
    CLAUSE("", "已被分配", allocated),
    CLAUSE("已分配", "", allocated),
    CLAUSE("已分配了", "", allocated),
    CLAUSE("已经分配", "", allocated),
    CLAUSE("已经分配了", "", allocated),
    CLAUSE("", "空闲", free),
    CLAUSE("", "可用", free),
    CLAUSE("", "剩余", free),
    CLAUSE("空闲", "", free),
    CLAUSE("可用", "", free),
    CLAUSE("剩余", "", free),
    CLAUSE("只剩", "", free),
    CLAUSE("进程已使用", "", process),
    CLAUSE("进程使用了", "", process),
    CLAUSE("总共保留", "", reserved),
    CLAUSE("总共保留了", "", reserved),
    CLAUSE("已保留", "", reserved),
    CLAUSE("保留了", "", reserved),
    /* Japanese */
    CLAUSE("", "を割り当て", tried),
    CLAUSE("", "の割り当て", tried),
    CLAUSE("合計容量", "", total),
    CLAUSE("総容量", "", total),
    CLAUSE("", "の合計容量", total),
    CLAUSE("", "が割り当て済み", allocated),
    CLAUSE("割り当て済み", "", allocated),
    CLAUSE("空き容量", "", free),
    CLAUSE("空き", "", free),
    CLAUSE("", "が空き", free),
    CLAUSE("", "の空き", free),
    CLAUSE("", "空き", free),
    CLAUSE("予約済み", "", reserved),
    CLAUSE("", "が予約", reserved),
    /* Korean */
    CLAUSE("총용량", "", total),
    CLAUSE("", "의총용량", total),
    CLAUSE("", "총용량", total),
    CLAUSE("당됨", "", allocated),
    CLAUSE("사용가능", "", free),
    CLAUSE("남음", "", free),
    CLAUSE("", "사용가능", free),
    CLAUSE("예약한총량", "", reserved),
    CLAUSE("예약됨", "", reserved),
    CLAUSE("", "예약됨", reserved),
    CLAUSE("", "를", tried),
    CLAUSE("", "을", tried),
    /* German */
    CLAUSE("", "zuzuweisen", tried),
    CLAUSE("", "zuzuteilen", tried),
    CLAUSE("", "anzufordern", tried),
    CLAUSE("", "zureservieren", tried),
    CLAUSE("", "gesamtkapazit", total),
    CLAUSE("gesamtkapazitätvon", "", total),
    CLAUSE("gesamtkapazität", "", total),
    CLAUSE("", "bereitszugewiesen", allocated),
    CLAUSE("", "bereitszugeteilt", allocated),
    CLAUSE("", "bereitsbelegt", allocated),
    CLAUSE("", "insgesamtvonpytorchreserviert", reserved),
    CLAUSE("", "vonpytorchreserviert", reserved),
    CLAUSE("", "insgesamtreserviert", reserved),
    CLAUSE("", "frei", free),
    CLAUSE("", "sindfrei", free),
    /* French */
    CLAUSE("allocationde", "", tried),
    CLAUSE("allouer", "", tried),
    CLAUSE("capacitétotalede", "", total),
    CLAUSE("capacitétotale", "", total),
    CLAUSE("", "decapacitétotale", total),
    CLAUSE("", "capacitétotale", total),
    CLAUSE("", "déj", allocated),
    CLAUSE("", "libre", free),
    CLAUSE("", "sontlibres", free),
    CLAUSE("", "réserv", reserved),
    /* Russian */
    CLAUSE("выделить", "", tried),
    CLAUSE("общийобъём", "", total),
    CLAUSE("общийобъем", "", total),
    CLAUSE("общаяёмкость", "", total),
    CLAUSE("общаяемкость", "", total),
    CLAUSE("", "общейёмкости", total),
    CLAUSE("", "общейемкости", total),
    CLAUSE("", "общийобъем", total),
    CLAUSE("ужевыделено", "", allocated),
    CLAUSE("", "ужевыделено", allocated),
    CLAUSE("", "выделено", allocated),
    CLAUSE("зарезервированоpytorch", "", reserved),
    CLAUSE("зарезервировановpytorch", "", reserved),
    CLAUSE("зарезервировано", "", reserved),
    CLAUSE("", "зарезервировано", reserved),
    CLAUSE("", "всегозарезервировано", reserved),
    CLAUSE("свободно", "", free),
    CLAUSE("", "свободно", free),
    CLAUSE("доступно", "", free),
    CLAUSE("", "доступно", free),
    CLAUSE("всего", "", total),
    CLAUSE("", "всего", total),
    /* Spanish, Portuguese, Italian */
    CLAUSE("asignar", "", tried),
    CLAUSE("alocar", "", tried),
    CLAUSE("allocare", "", tried),
    CLAUSE("capacidadtotalde", "", total),
    CLAUSE("capacidadetotalde", "", total),
    CLAUSE("", "decapacidadtotal", total),
    CLAUSE("", "capacidadtotal", total),
    CLAUSE("", "decapacidadetotal", total),
    CLAUSE("", "capacidadetotal", total),
    CLAUSE("", "dicapacit", total),
    CLAUSE("", "yaasignad", allocated),
    CLAUSE("", "jáalocad", allocated),
    CLAUSE("",
           "gi\xc3"
           "allocat",
           allocated),
    CLAUSE("", "livre", free),
    CLAUSE("", "liber", free),
    CLAUSE("", "reservad", reserved),
    CLAUSE("", "riservat", reserved),
};
const size_t vw__error_text_translated_clause_count = COUNT_OF(vw__error_text_translated_clauses);

/* What may stand between such a phrase and its number. */
const char *const vw__error_text_fillers[] = {":", "=", "为", "是", "约", "は", "が"};
const size_t vw__error_text_filler_count = COUNT_OF(vw__error_text_fillers);

/* Tried after the units of line.h; longer names stand before their beginnings. */
const vw__line_unit vw__error_text_local_units[] = {
    {"千字节", 10},     {"兆字节", 20},     {"吉字节", 30},     {"太字节", 40},     {"字节", 0},
    {"キロバイト", 10}, {"メガバイト", 20}, {"ギガバイト", 30}, {"テラバイト", 40}, {"バイト", 0},
    {"킬로바이트", 10}, {"메가바이트", 20}, {"기가바이트", 30}, {"테라바이트", 40}, {"바이트", 0},
    {"КиБ", 10},        {"МиБ", 20},        {"ГиБ", 30},        {"ТиБ", 40},        {"Кб", 10},
    {"Мб", 20},         {"Гб", 30},         {"Тб", 40},         {"КБ", 10},         {"МБ", 20},
    {"ГБ", 30},         {"ТБ", 40},         {"кб", 10},         {"мб", 20},         {"гб", 30},
    {"тб", 40},         {"байт", 0},        {"kio", 10},        {"mio", 20},        {"gio", 30},
    {"tio", 40},        {"octets", 0},      {"ko", 10},         {"mo", 20},         {"go", 30},
};
const size_t vw__error_text_local_unit_count = COUNT_OF(vw__error_text_local_units);
