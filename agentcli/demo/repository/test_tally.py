import unittest

import tally


class WordsTest(unittest.TestCase):
    def test_case_does_not_matter(self):
        self.assertEqual(tally.words("Hello hello"), ["hello", "hello"])

    def test_an_apostrophe_inside_a_word_belongs_to_it(self):
        self.assertEqual(tally.words("It isn't 'quoted'"), ["it", "isn't", "quoted"])


class MostCommonTest(unittest.TestCase):
    def test_ties_are_in_alphabetical_order(self):
        self.assertEqual(tally.most_common("b a c a b", 2), [("a", 2), ("b", 2)])


if __name__ == "__main__":
    unittest.main()
