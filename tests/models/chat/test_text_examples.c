/* Examples for encoders: tables and JSON, labels, scores, words, and the faults of a file. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

static th_status read(const char *text, const th_text_example_options *options, th_text_examples *data)
{
    const size_t bytes = strlen(text);
    char *copy = malloc(bytes ? bytes : 1); /* of exact size, for the sanitizers */
    memcpy(copy, text, bytes);
    const th_status status = th_text_examples_read(ctx, copy, bytes, "data", options, data);
    free(copy);
    return status;
}

/* Writes an example for each line: texts, then labels in brackets, then the score after a colon. */
static void show(const th_text_examples *data, char *shown, size_t size)
{
    FILE *file = fmemopen(shown, size, "w");
    for (int64_t i = 0; i < data->count; i++) {
        for (int64_t j = data->text_begin[i]; j < data->text_begin[i + 1]; j++)
            fprintf(file, "%s%s", j > data->text_begin[i] ? "|" : "", data->text[j]);
        for (int64_t j = data->label ? data->label_begin[i] : 0; data->label && j < data->label_begin[i + 1]; j++)
            fprintf(file, "[%d %s]", (int)data->label[j], data->label_names[data->label[j]]);
        if (data->score)
            fprintf(file, ":%g", data->score[i]);
        fputc('\n', file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void check(const th_text_example_options *options, const char *text, const char *wanted)
{
    char shown[1000] = "";
    th_text_examples data;
    ck_assert_msg(read(text, options, &data) == TH_OK, "%s: %s", text, th_error_text(ctx));
    show(&data, shown, sizeof shown);
    ck_assert_str_eq(shown, wanted);
    th_text_examples_free(&data);
    ck_assert_ptr_null(data.text);
}

static void refused(const th_text_example_options *options, const char *text, const char *words)
{
    th_text_examples data;
    expect_status(read(text, options, &data), TH_ERROR_VALUE, words);
    ck_assert_ptr_null(data.text);
}

static const th_text_example_options texts = {.kind = TH_EXAMPLES_TEXTS}, labels = {.kind = TH_EXAMPLES_LABELS},
                                     scores = {.kind = TH_EXAMPLES_SCORES}, words = {.kind = TH_EXAMPLES_WORDS};

START_TEST(texts_pairs_and_triplets)
{
    check(&texts, "text\na\nb\n", "a\nb\n");
    check(&texts, "Anchor,Positive,Negative\na,\"b, c\",d\n", "a|b, c|d\n");
    check(&texts, "sentence1\tsentence2\tscore\na\tb\t2.5\nc\td\t0\n", "a|b:2.5\nc|d:0\n");
    check(&texts, "{\"query\": \"a\", \"answer\": \"b\"}\n{\"query\": \"ä\", \"answer\": \"d\"}\n", "a|b\nä|d\n");
    check(&texts, "[{\"question1\": \"a\", \"question2\": \"b\", \"is_duplicate\": true}]", "a|b:1\n");
}
END_TEST

START_TEST(labels_have_an_order)
{
    check(&labels, "text,label\nx,spam\ny,ham\nz,spam\n", "x[1 spam]\ny[0 ham]\nz[1 spam]\n");
    check(&labels, "text,label\nx,10\ny,9\nz,-1\n", "x[2 10]\ny[1 9]\nz[0 -1]\n");
    check(&labels, "{\"premise\": \"a\", \"hypothesis\": \"b\", \"label\": 2}", "a|b[0 2]\n");
    check(&labels, "{\"text\": \"a\", \"labels\": [\"y\", \"x\"]}\n{\"text\": \"b\", \"labels\": []}\n",
          "a[1 y][0 x]\nb\n");
}
END_TEST

START_TEST(labels_of_a_model)
{
    static const char *const names[] = {"spam", "ham"};
    const th_text_example_options known = {.kind = TH_EXAMPLES_LABELS, .label_names = names, .n_labels = 2};
    check(&known, "text,label\nx,ham\n", "x[1 ham]\n");
    refused(&known, "text,label\nx,eggs\n", "the label \"eggs\" is none of the 2 known labels: \"spam\", \"ham\"");
}
END_TEST

START_TEST(scores_are_numbers)
{
    check(&scores, "review;stars\na;4\nb;1e-1\n", "a:4\nb:0.1\n");
    check(&scores, "{\"text\": \"a\", \"score\": -3.5}", "a:-3.5\n");
    refused(&scores, "text,score\na,much\n", "the score is not a finite number");
    refused(&scores, "text,score\na,1e999\n", "the score is not a finite number");
    refused(&scores, "text,score\na,\n", "the score is not a finite number");
}
END_TEST

START_TEST(words_with_labels)
{
    check(&words, "{\"tokens\": [\"Ada\", \"wrote\"], \"ner_tags\": [\"B-PER\", \"O\"]}", "Ada|wrote[0 B-PER][1 O]\n");
    refused(&words, "{\"tokens\": [\"Ada\", \"wrote\"], \"ner_tags\": [\"O\"]}", "not as many labels as words");
    refused(&words, "{\"tokens\": [], \"ner_tags\": []}", "the words are not an array with texts");
    refused(&words, "tokens,tags\na,b\n", "a line has one column; sentences have a word and its label");
    refused(&words, "[{\"tokens\": \"a\", \"tags\": \"b\"}]", "the words are not an array with texts");
}
END_TEST

START_TEST(sentences)
{
    check(&words,
          "\xef\xbb\xbf"
          "Ada\tB-PER\r\nwrote\tO\r\n\r\nYes\tO\n\t\n",
          "Ada|wrote[0 B-PER][1 O]\nYes[1 O]\n");
    check(&words, "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n# NN B-NP O \n\n\n", "EU|#[0 B-ORG][1 O]\n");
    check(&words, "# sent_id = 1\n1.5\tNUM\n\n", "1.5[0 NUM]\n");
    refused(&words, "a\tO\n\nb\nc\tO\n", "line 3: a line has one column");
    refused(&words, "\tO\n", "line 1: the word is empty");
    refused(&words, "caf\xe9\tO\n", "a word or its label is not UTF-8");
}
END_TEST

START_TEST(tables_without_a_header)
{
    const th_text_example_options named = {.kind = TH_EXAMPLES_SCORES, .columns = ",Score,text"};
    check(&named, "1\t2.5\ta, b, c, d\r\n2\t-1\te\r\n", "a, b, c, d:2.5\ne:-1\n");
    check(&named, "\n1,2.5,\"a, \"\"b\"\"\"\n", "a, \"b\":2.5\n");
    refused(&named, "1,2.5\n", "the row has fewer fields than the header");
    refused(&named, "", "data has no examples");
}
END_TEST

START_TEST(names_of_columns)
{
    const th_text_example_options other = {.kind = TH_EXAMPLES_LABELS, .text = {"Body"}, .label = "Team"};
    check(&other, "id,body,text,team\n1,x,y,red\n", "x[0 red]\n");
    refused(&other, "id,text,team\n1,y,red\n", "it has no text: its fields are");
    refused(&other, "id,text,team\n1,y,red\n", "The text is called \"Body\"");
    refused(&labels, "text,colour\na,red\n", "The label is called \"label\", \"labels\"");
    const th_text_example_options first = {.kind = TH_EXAMPLES_TEXTS, .text = {"sentence1"}};
    check(&first, "sentence1,sentence2\na,b\n", "a\n");
    const th_text_example_options alone = {.kind = TH_EXAMPLES_LABELS, .texts_only = true};
    check(&alone, "text\na\nb\n", "a\nb\n");
}
END_TEST

START_TEST(faults_are_counted)
{
    refused(&labels, "", "data has no examples");
    refused(&labels, "{\"text\": \"a\"}\n{\"text\": \"a\", \"label\": 0.5}\n{\"text\": \"b\"}\n",
            "line 1: it has no label");
    refused(&labels, "{\"text\": \"a\"}\n{\"text\": \"a\", \"label\": 0.5}\n{\"text\": \"b\"}\n",
            "line 2: a label is a number, not a text or a whole number (1 such)");
    refused(&labels, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", "In all, 2 of 2 examples have faults");
    refused(&texts, "anchor,positive\na,b\nc,\n", "line 3: the second text is empty");
    refused(&texts, "{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"c\"}\n",
            "it has 1 texts, and the first example has 2");
    refused(&texts, "{\"text\": 5}", "the text is a number, not a text");
    refused(&texts, "[1, 2]", "the example is not a JSON object");
    refused(&texts,
            "{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"a\", \"positive\": \"b\", \"score\": 1}\n",
            "it has a score, and the first example has none");
}
END_TEST

START_TEST(answers_of_questions)
{
    static const th_text_example_options answers = {.kind = TH_EXAMPLES_ANSWERS};
    static const char wanted[] = "who|\303\211va and Adam[0 Adam]\n";
    static const char *const forms[] = {
        "question,context,answer\nwho,\303\211va and Adam,Adam\n",
        "query,passage,answer,answer_start\nwho,\303\211va and Adam,Adam,8\n",
        "{\"question\": \"who\", \"context\": \"\303\211va and Adam\", \"answers\": {\"text\": [\"Adam\"], "
        "\"answer_start\": [8]}}",
        "{\"question\": \"who\", \"context\": \"\303\211va and Adam\", \"answers\": [{\"text\": \"Adam\", "
        "\"answer_start\": 8}]}",
        "{\"question\": \"who\", \"context\": \"\303\211va and Adam\", \"answers\": [\"Adam\"]}",
        "{\"question\": \"who\", \"context\": \"\303\211va and Adam\", \"answer\": \"Adam\", \"answer_start\": 8}",
    };
    th_text_examples data;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check(&answers, forms[i], wanted);
        ck_assert_int_eq(read(forms[i], &answers, &data), TH_OK);
        ck_assert_int_eq(data.answer_begin[0], 9); /* \303\211 is one character */
        th_text_examples_free(&data);
    }
    ck_assert_int_eq(read("{\"question\": \"q\", \"context\": \"a b a\", \"answers\": {\"text\": [\"a\", \"b\"], "
                          "\"answer_start\": [4, 2]}}",
                          &answers, &data),
                     TH_OK);
    ck_assert(data.answer_begin[0] == 4 && data.answer_begin[1] == 2 && data.label_begin[1] == 2);
    th_text_examples_free(&data);
    check(&(th_text_example_options){.kind = TH_EXAMPLES_ANSWERS, .texts_only = true}, "question,context\nq,c\n",
          "q|c\n");
    refused(&answers, "question,context,answer,answer_start\nq,a b,b,0\n",
            "the answer \"b\" is not at the character answer_start");
    refused(&answers, "question,context,answer,answer_start\nq,a b,b,99\n", "is not at the character answer_start");
    refused(&answers, "question,context,answer,answer_start\nq,a b,b,x\n", "the answer_start is not a number");
    refused(&answers, "question,context,answer\nq,a b,c\n", "the answer \"c\" is not a part of the text");
    refused(&answers, "question,answer\nq,a\n", "it has no context");
    refused(&answers, "question,context\nq,a\n", "it has no answer");
    refused(&answers, "{\"question\": \"q\", \"context\": \"a\", \"answers\": {\"text\": []}}",
            "it has no answer; each question");
    refused(&answers, "{\"question\": \"q\", \"context\": \"a\", \"answers\": {}}", "an answer has no text");
    refused(&answers, "{\"question\": \"q\", \"context\": \"a\", \"answers\": [{}]}", "an answer has no text");
    refused(&answers, "{\"version\": \"1.1\", \"data\": [{\"title\": \"a\"}]}", "jq -c '.data[].paragraphs[]");
}
END_TEST

/* Files in other forms: the message says how to convert them. (CLINC150, Restaurant8k, SQuAD, and a text without names.) */
START_TEST(conversions)
{
    refused(&labels, "{\"oos_val\": [[\"a\", \"b\"]], \"train\": [[\"what is pto\", \"translate\"]]}",
            "jq -c '.train[] | {text: .[0], label: .[1]}'");
    refused(&labels, "[[\"what is pto\", \"translate\"]]", "jq -c '.[] | {text: .[0], label: .[1]}'");
    refused(&labels, "[{\"userInput\": {\"text\": \"a table\"}, \"labels\": [{\"slot\": \"people\"}]}]",
            "\"text\" within \"userInput\" must be a member of the example itself: jq writes {text: .userInput.text}");
    refused(&labels, "{\"version\": \"1.1\", \"data\": [{\"title\": \"a\"}]}", "one in each line: jq -c '.data[]'");
    refused(&labels, "a line of text\nanother\n", "the line is neither an object of JSON nor a row of a table");
}
END_TEST

/* Messages that do not fit end behind a word. */
START_TEST(long_faults)
{
    static const char text[] =
        "{\"text\": \"a\"}\n{\"texts\": \"b\"}\n{\"text\": 3}\n{\"text\": \"b\", \"label\": {}}\n";
    refused(&labels, text, "\"target\" or ... (1 such); line 2");
    refused(&labels, text,
            "... (1 such); line 3: the text is a number, not a text (1 such); line 4: a label is an object");
}
END_TEST

START_TEST(wrong_arguments)
{
    th_text_examples data;
    expect_status(th_text_examples_read(ctx, NULL, 0, NULL, NULL, &data), TH_ERROR_ARGUMENT, "needs a text");
    expect_status(th_text_examples_read(ctx, "", 0, NULL, &(th_text_example_options){.kind = 9}, &data),
                  TH_ERROR_ARGUMENT, "a kind of examples");
    expect_status(th_text_examples_read(NULL, "", 0, NULL, NULL, &data), TH_ERROR_ARGUMENT, "the context is NULL");
    expect_status(th_text_examples_read(ctx, "{\"text\": \"a\"", 12, "data", NULL, &data), TH_ERROR_FILE,
                  "data, line 1");
    th_text_examples_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("text examples", setup, close_context);
    tcase_add_test(tests, texts_pairs_and_triplets);
    tcase_add_test(tests, labels_have_an_order);
    tcase_add_test(tests, labels_of_a_model);
    tcase_add_test(tests, scores_are_numbers);
    tcase_add_test(tests, words_with_labels);
    tcase_add_test(tests, sentences);
    tcase_add_test(tests, tables_without_a_header);
    tcase_add_test(tests, names_of_columns);
    tcase_add_test(tests, faults_are_counted);
    tcase_add_test(tests, answers_of_questions);
    tcase_add_test(tests, conversions);
    tcase_add_test(tests, long_faults);
    tcase_add_test(tests, wrong_arguments);
    return run_suites();
}
