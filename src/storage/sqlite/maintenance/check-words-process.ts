import { examineWords } from './check-words.ts'
import { answerParent } from './own-process.ts'

answerParent(examineWords)
