import { examine } from './find-faults.ts'
import { answerParent } from './own-process.ts'

answerParent(examine)
